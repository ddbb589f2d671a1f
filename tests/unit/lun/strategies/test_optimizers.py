"""Which optimizer goes with which strategy, and what docs/optimizers.md says of each."""

import importlib
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from support.pages import rows
from torch import nn

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.plain_yaml import parse_yaml
from ldm.torch_internals import tree_leaves
from ldm.util import instantiate_from_config
from lun.strategies.optimizers import ELEMENTWISE, is_elementwise, require_whole_base, require_whole_weights

ROOT = Path(__file__).parents[4]
PAGE = [[cell.replace("`", "") for cell in row] for row in rows(ROOT / "docs/optimizers.md", "Optimizers")[1:]]
MEASURED = [row for row in PAGE if not row[1].startswith("bitsandbytes")]


def model(target: str) -> dict[str, Any]:
    return {"params": {"optimizer_config": {"target": target}}}


def state_bytes(recipe: Any, shape: tuple[int, ...]) -> float:
    weight = nn.Parameter(torch.ones(shape))
    weight.grad = torch.ones(shape)
    group: dict[str, Any] = {"params": [weight]}
    if "optimizers" in recipe.get("params", {}):
        recipe = {**recipe["params"]["optimizers"]["muon"]}
    optimizer = instantiate_from_config(recipe, [group], lr=1e-3)
    getattr(optimizer, "train", bool)()
    optimizer.step()
    kept = tree_leaves(dict(optimizer.state[weight]))
    return sum(value.nbytes for value in kept if isinstance(value, torch.Tensor)) / weight.numel()


@pytest.mark.parametrize(("layer", "target", "matrix", "kernel"), [row[:4] for row in MEASURED], ids=lambda text: text)
def test_the_page_says_what_an_optimizer_keeps(layer: str, target: str, matrix: str, kernel: str) -> None:
    recipe = preset(layer)["params"]["optimizer_config"] if layer else {"target": target}
    assert recipe["target"] == target
    assert round(state_bytes(recipe, (128, 128))) == int(matrix)
    if kernel != "more":
        assert round(state_bytes(recipe, (64, 64, 3, 3))) == int(kernel)


def test_the_page_says_the_learning_rate_of_each_layer() -> None:
    for layer, _, _, _, rate, *_ in PAGE:
        rules = preset(layer)["params"].get("training_config", {}).get("params", {}).get("rules", {}) if layer else {}
        (own,) = {str(rule["lr"]) for rule in rules.values() if "lr" in rule} or {"the run's"}
        assert rate.startswith(own) and "base_learning_rate" not in preset(layer or "came")


@pytest.mark.parametrize(("target", "spread"), [(row[1], row[5:]) for row in PAGE], ids=lambda value: value)
def test_the_page_says_which_optimizer_takes_shards(target: str, spread: list[str]) -> None:
    if target.startswith("bitsandbytes"):  # where it is installed or not
        kind = type(target.rpartition(".")[2], (), {"__module__": target.rpartition(".")[0]})
    else:
        kind = admitted(target)
        require_whole_weights(model(target), "ddp")
        for strategy, fits in zip(("fsdp", "deepspeed"), spread, strict=True):
            with nullcontext() if fits == "yes" else pytest.raises(Fault, match="CFG08"):
                require_whole_weights(model(target), strategy)
    assert spread == (["yes", "yes"] if is_elementwise(kind) else ["no", "no"])


def test_code_of_ones_own_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    own = type("Mine", (torch.optim.SGD,), {"__module__": "lun.local.mine"})
    monkeypatch.setattr("lun.strategies.optimizers.admitted", lambda target: own)
    require_whole_weights(model("lun.local.mine.Mine"), "fsdp")


def test_zero_takes_what_is_said_to_be_elementwise_but_no_average_of_whole_weights() -> None:
    params = {"stage": 2, "zero_allow_untested_optimizer": True}
    zero = {"target": "lun.strategies.deepspeed.DeepSpeed", "params": params}
    require_whole_weights(model("prodigyopt.Prodigy"), zero)
    with pytest.raises(Fault, match="in shards"):
        require_whole_weights(model("schedulefree.AdamWScheduleFree"), zero)


HERE = [(home, name) for home in ("torch.optim", "pytorch_optimizer") for name in sorted(ELEMENTWISE[home])]


@pytest.mark.parametrize(("home", "name"), HERE, ids=lambda value: value)
def test_an_optimizer_for_shards_steps_joined_weights_that_are_cut_anew_as_it_steps_whole_ones(
    home: str, name: str
) -> None:
    """And what it keeps has the shape of the weight, as shards are stored by, or is one number."""
    whole, state = stepped(home, name, lambda flat: [flat[:30].view(5, 6), flat[30:]])
    cut, _ = stepped(home, name, lambda flat: [flat[:17], flat[17:33], flat[33:]])
    assert torch.equal(whole, cut)
    for weight, kept in state.items():
        assert {key for key, value in kept.items() if torch.is_tensor(value) and value.numel() > 1} <= {
            key for key, value in kept.items() if torch.is_tensor(value) and value.shape == weight.shape
        }


def stepped(home: str, name: str, cut: Callable[[torch.Tensor], list[torch.Tensor]]) -> tuple[torch.Tensor, Any]:
    """Forty weights after four steps by an optimizer that holds them as `cut` has it, and its state."""
    draw = torch.Generator().manual_seed(3)
    weights = [nn.Parameter(part.clone()) for part in cut(torch.randn(40, generator=draw))]
    optimizer = getattr(importlib.import_module(home), name)(weights, lr=0.01)
    for _ in range(4):
        for weight, gradient in zip(weights, cut(torch.randn(40, generator=draw)), strict=True):
            weight.grad = gradient.clone()
        optimizer.step()
    return torch.cat([weight.detach().reshape(-1) for weight in weights]), optimizer.state


def preset(name: str) -> Any:
    return parse_yaml((ROOT / f"configs/options/{name}.yaml").read_text("utf-8"))["model"]


def test_every_layer_with_an_optimizer_is_on_the_page() -> None:
    files = [path for path in (ROOT / "configs/options").glob("*.yaml") if not re.match(r"\d", path.name)]
    named = {path.stem for path in files if "optimizer_config:\n      target:" in path.read_text("utf-8")}
    assert named == {row[0] for row in PAGE if row[0]}


@pytest.mark.parametrize("strategy", ["fsdp", {"target": "lun.strategies.fsdp.FSDP"}, "deepspeed_stage_2"])
def test_a_quantised_base_is_refused_where_weights_are_cut_into_shards(strategy: Any) -> None:
    quantised = {"params": {"base_config": {"target": "ldm.adapters.Int8"}}}
    with pytest.raises(Fault, match="a quantised base cannot be trained on") as refused:
        require_whole_base(quantised, strategy)
    assert refused.value.id == "CFG08"
    require_whole_base(quantised, "ddp")
    require_whole_base({"params": {"base_config": None}}, strategy)
