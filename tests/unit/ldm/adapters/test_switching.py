"""A network without its adapters is its base, and gets them back."""

import pytest
import torch
from support.adapted import KINDS, LAYERS, adapted, example, learned
from torch import nn

from ldm.adapters.switching import merge_at, parameters_of_adapters, without_adapters


@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_without_adapters_a_network_computes_what_its_base_does(kind: str, shape: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[shape]()
    network, x = nn.Sequential(layer, nn.Dropout(0.5)), example(layer)
    before = layer(x)
    adapter = adapted(kind, layer)
    learned(adapter)
    assert parameters_of_adapters(network) == {id(p) for p in adapter.parameters()}
    changed = layer(x)
    assert not torch.equal(changed, before)
    with without_adapters(network):
        inside = network(x)
    assert torch.equal(inside, before) and not inside.requires_grad
    assert torch.equal(layer(x), changed)
    assert all(module.training for module in network.modules())


def test_adapters_come_back_after_an_error_and_parts_in_evaluation_stay_so() -> None:
    network = nn.Sequential(nn.Linear(12, 16), nn.Dropout(0.5).eval())
    adapter = adapted("LoRA", network[0])
    with pytest.raises(ValueError, match="in the middle"), without_adapters(network):
        raise ValueError("in the middle")
    assert adapter.active and network[0].training and not network[1].training


@pytest.mark.parametrize("shape", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_merged_at_a_strength_a_layer_computes_that_much_of_the_change(kind: str, shape: str) -> None:
    torch.manual_seed(0)
    layer = LAYERS[shape]()
    base, x = layer.weight.detach().clone(), example(layer)
    adapter = adapted(kind, layer)
    learned(adapter)
    changed, whole = layer(x).detach(), adapter.merged(base).detach() - base
    assert merge_at({"layer": layer, "other": nn.Linear(2, 2)}, 1.0) == 1
    assert torch.allclose(layer(x), changed, atol=1e-5)
    for strength in (0.5, 0.0):
        layer.weight.data.copy_(base)
        merge_at({"layer": layer}, strength)
        assert torch.allclose(layer.weight, base + strength * whole, atol=1e-6)
    assert torch.equal(layer.weight, base)
