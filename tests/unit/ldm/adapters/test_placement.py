"""Rules that say which layers get which adapter."""

from typing import Any

import pytest
import torch
from support.models import tiny_model

from ldm.adapters import Adapters, LoRA
from ldm.adapters.layer import adapters_in
from ldm.errors import Fault
from ldm.training.groups import named_layers
from lun.cli.parser import parse
from lun.run.settings import read_settings

LOW = {"target": "ldm.adapters.LoRA", "params": {"rank": 2}}


def placed(seed: int = 1, **rules: Any) -> dict[str, Any]:
    model = tiny_model()
    model.configure_model()
    networks = model.trainable_networks()
    Adapters(rules)(networks, seed)
    return dict(adapters_in(named_layers(networks)))


def test_the_first_rule_that_matches_a_layer_says_its_kind_and_none_leaves_it_alone() -> None:
    loha = {"target": "ldm.adapters.LoHa", "params": {"rank": 1}}
    found = placed(
        keys={"match": "unet.*to_k", "kind": None},
        values={"match": ["unet.*to_v"], "kind": loha},
        attention={"match": "unet.*attentions.*", "kind": LOW},
    )
    kinds = {name.rpartition(".")[2]: type(adapter).__name__ for name, adapter in found.items()}
    assert kinds["to_v"] == "LoHa"
    assert kinds["to_q"] == kinds["proj_in"] == "LoRA"
    assert "to_k" not in kinds
    assert all(name.startswith("unet.") for name in found)


def test_what_an_adapter_starts_with_is_its_layers_alone() -> None:
    few = placed(one={"match": "unet.*attn1.to_q", "kind": LOW})
    many = placed(all={"match": "unet.*", "kind": LOW})
    others = placed(seed=2, one={"match": "unet.*attn1.to_q", "kind": LOW})
    assert len(many) > len(few) > 1
    for name, adapter in few.items():
        assert torch.equal(adapter.down, many[name].down)
        assert not torch.equal(adapter.down, others[name].down)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"gone": {"match": "unet.nowhere.*", "kind": LOW}}, ("gone matches no layer", "unet.conv_in")),
        (
            {"first": {"match": "unet.*", "kind": LOW}, "late": {"match": "unet.*attn*", "kind": LOW}},
            ("late places", "put it first"),
        ),
    ],
    ids=["no name", "shadowed"],
)
def test_a_rule_without_effect_is_refused_by_name(rules: dict[str, Any], said: tuple[str, ...]) -> None:
    with pytest.raises(Fault, match="CFG08") as told:
        placed(**rules)
    assert all(part in told.value.render() for part in said)


@pytest.mark.parametrize(
    "rule",
    ["unet.*", {"match": "*"}, {"kind": LOW}, {"match": "*", "kind": "LoRA"}, {"match": 3, "kind": LOW}]
    + [{"match": "*", "kind": LOW, "rank": 4}],
)
def test_what_is_no_rule_is_refused(rule: Any) -> None:
    with pytest.raises(Fault, match="CFG03"):
        Adapters({"mine": rule})


def test_a_kind_that_is_no_adapter_is_refused() -> None:
    with pytest.raises(Fault, match="CFG08") as told:
        placed(mine={"match": "unet.conv_in", "kind": {"target": "torch.nn.Identity"}})
    assert "ldm.adapters.layer.Adapter" in told.value.render()


def test_a_rule_of_null_is_that_of_an_earlier_file_taken_away() -> None:
    found = placed(gone=None, one={"match": "unet.conv_in", "kind": LOW})
    assert list(found) == ["unet.conv_in"]
    assert isinstance(found["unet.conv_in"], LoRA)


def test_a_kind_alone_where_rules_have_to_stand_is_refused() -> None:
    model = tiny_model(adapter_config=LOW)
    with pytest.raises(Fault, match="CFG08") as told:
        model.configure_model()
    assert "ldm.adapters.Adapters" in told.value.fix


@pytest.mark.parametrize(("preset", "kinds"), [("locon", {"LoRA"}), ("dora", {"DoRA"}), ("lokr", {"LoKr"})])
def test_each_preset_places_its_kind_on_the_demos_network(preset: str, kinds: set[str]) -> None:
    config = read_settings(parse(["--base", "configs/demo/emoji.yaml", f"configs/options/{preset}.yaml"]), None).config
    rules = config["model"]["params"]["adapter_config"]["params"]["rules"]
    found = placed(**rules)
    assert {type(adapter).__name__ for adapter in found.values()} == kinds
    assert any("conv1" in name for name in found) == (preset == "locon")
