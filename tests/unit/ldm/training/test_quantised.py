"""Matrices that are frozen below adapters in few bits: which ones, what they compute, and what is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from ldm.adapters import Int8
from ldm.errors import Fault
from ldm.models.model_parts import PartSize
from ldm.training.adapters import adapter_rules
from ldm.training.groups import decide, named_weights
from ldm.training.quantised import QuantisedLinear, mark, marked_in, quantisation_of, quantise
from ldm.training.rules import Rule

IN_BLOCKS = ["blocks.0.0", "blocks.0.1", "blocks.1.0", "blocks.1.1"]


class Network(nn.Module):
    """A first and a last layer, and between them blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Linear(8, 16)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16), nn.LayerNorm(16)) for _ in "ab")
        self.last = nn.Linear(16, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.time(x)
        for block in self.blocks:
            x = x + block(x)
        out: torch.Tensor = self.last(x)
        return out


def adapted(
    kind: str = "LoRA", match: str = "unet.blocks.0.*", rules: Mapping[str, bool] | None = None, meta: bool = False
) -> Network:
    """A network whose layers are marked, of which adapters train and what `rules` say besides."""
    with torch.device("meta" if meta else "cpu"):
        network = Network()
    rule = {"match": match, "kind": {"target": f"ldm.adapters.{kind}", "params": {"rank": 2}}}
    recipe = {"target": "ldm.adapters.Adapters", "params": {"rules": {"one": rule}}}
    networks = {"unet": network}
    own = [Rule(name, name.__eq__, {"train": train}) for name, train in (rules or {}).items()]
    found = [*own, *adapter_rules(recipe, networks, 0)]
    decision = decide(named_weights(networks), found)
    mark(networks, Int8(), decision)
    decision.apply(named_weights(networks))
    return network


def test_the_matrices_of_blocks_are_quantised_and_nothing_else_changes_its_name_or_numbers() -> None:
    torch.manual_seed(0)
    network = adapted()
    before, names = {name: p.detach().clone() for name, p in network.named_parameters()}, list(network.state_dict())
    x = torch.randn(3, 8)
    whole = network(x)
    quantise(network)
    assert [name for name, one in network.named_modules() if isinstance(one, QuantisedLinear)] == IN_BLOCKS
    assert list(network.state_dict()) == names
    for name, parameter in network.named_parameters():
        if name.removesuffix(".weight") in IN_BLOCKS:
            assert parameter.dtype == torch.int8 and not parameter.requires_grad
        else:
            assert torch.equal(parameter, before[name])
    assert 0 < (network(x) - whole).abs().max() < 0.05 * whole.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_reach_adapters_through_it_as_through_what_the_codes_stand_for(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network, x = adapted(), torch.randn(3, 8)
    quantise(network)
    plain = adapted()
    plain.load_state_dict(network.state_dict(), strict=False)
    for (mine, _), (theirs, _) in zip(marked_in(network), marked_in(plain), strict=True):
        assert isinstance(mine, QuantisedLinear)
        theirs.weight.data = mine.matrix(torch.float32)
    for one in (network, plain):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.bfloat16):
            one(x).float().square().sum().backward()
    trained = [(name, p.grad) for name, p in network.named_parameters() if p.requires_grad]
    assert trained and all(".adapter." in name for name, _ in trained)
    for name, gradient in trained:
        torch.testing.assert_close(gradient, plain.get_parameter(name).grad)


def test_a_pissa_starts_from_the_files_own_numbers() -> None:
    network = adapted("PiSSA")
    layer: Any = network.blocks[0][0]  # type: ignore[index]
    whole = layer.weight.detach().clone()
    quantise(network)
    torch.testing.assert_close(layer.adapter.merged(whole), whole, rtol=0, atol=1e-6)


def test_a_plan_counts_the_bytes_of_codes() -> None:
    network = adapted(meta=True)
    size = PartSize.of("UNet", network)
    assert size.coded == (4 * 256, 4 * (256 + 4 * 16))
    network = adapted()
    quantise(network)
    taken = [layer.weight.nbytes + layer.get_buffer("scales").nbytes for layer, _ in marked_in(network)]
    assert sum(taken) == size.coded[1]


@pytest.mark.parametrize(
    ("case", "told"),
    [
        ({"kind": "DoRA"}, "DoRA needs an unquantised base"),
        ({"rules": {"unet.last.weight": True}}, "a quantised base has to be frozen"),
    ],
)
def test_what_would_be_wrong_over_a_quantised_base_is_refused(case: dict[str, Any], told: str) -> None:
    with pytest.raises(Fault, match=told) as refused:
        adapted(**case)
    assert refused.value.id == "CFG08" and refused.value.where == "model.params.base_config"


def test_a_network_without_matrices_in_blocks_is_refused() -> None:
    networks = {"unet": nn.Sequential(nn.Conv2d(4, 4, 1))}
    rule: dict[str, Any] = {"match": "*", "kind": {"target": "ldm.adapters.LoRA", "params": {"rank": 2}}}
    rules = adapter_rules({"target": "ldm.adapters.Adapters", "params": {"rules": {"one": rule}}}, networks, 0)
    with pytest.raises(Fault, match="quantises nothing"):
        mark(networks, Int8(), decide(named_weights(networks), rules))


def test_a_base_is_quantised_below_adapters_alone_and_by_what_is_made_for_it() -> None:
    assert quantisation_of(None, adapted=False) is None
    with pytest.raises(Fault, match="quantises what trains"):
        quantisation_of({"target": "ldm.adapters.Int8"}, adapted=False)
    with pytest.raises(Fault, match="no way to quantise"):
        quantisation_of({"target": "torch.nn.Identity"}, adapted=True)
