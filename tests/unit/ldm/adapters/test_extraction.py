"""The difference of two models as LoRAs."""

import copy
from typing import Any

import pytest
import torch
from support.tiny_networks import FAMILIES, adapt, tiny_networks
from torch import nn

from ldm.adapters.arithmetic import change
from ldm.adapters.decomposition import RankRule
from ldm.adapters.extraction import extract
from ldm.adapters.layer import adapters_in
from ldm.errors import Fault
from ldm.training.groups import named_layers, named_weights
from ldm.training.rules import matching

MATCHES = {"SD 3": ("unet.*attn.to_q", "unet.norm_out.linear"), "": ("unet.*attn1.to_q", "unet.*conv1")}


def tuned(family: str) -> tuple[dict[str, nn.Module], dict[str, Any]]:
    """Networks whose layers have changed by products of rank 2 and 3, and these changes."""
    adapted, networks = tiny_networks(family), tiny_networks(family)
    adapt(adapted, *MATCHES.get(family, MATCHES[""]), "text_encoder*mlp.fc1")
    changes = {name: adapter.delta().detach() for name, adapter in adapters_in(named_layers(adapted))}
    layers: dict[str, Any] = named_layers(networks)
    for name, delta in changes.items():
        layers[name].weight.data += delta
    return networks, changes


@pytest.mark.parametrize("family", FAMILIES)
def test_planted_changes_are_found_exactly_and_nothing_else_is(family: str) -> None:
    networks, changes = tuned(family)
    found = extract(networks, tiny_networks(family), RankRule.parse("4"))
    assert found.layers.keys() == changes.keys() and not found.left_out
    assert found.error < 1e-5
    for name, delta in changes.items():
        torch.testing.assert_close(change(found.layers[name].tensors, delta.shape), delta, rtol=1e-4, atol=1e-6)


def test_what_is_not_asked_for_and_what_no_adapter_holds_is_left_out_by_name_and_counts_as_an_error() -> None:
    networks, changes = tuned("SD 1.x")
    named_weights(networks)["unet.conv_out.bias"].data += 0.5
    found = extract(networks, tiny_networks("SD 1.x"), RankRule.parse("4"), matching("unet.*attn*"))
    others = {f"{name}.weight" for name in changes if "attn" not in name or name.startswith("text")}
    assert found.left_out.keys() == others | {"unet.conv_out.bias"}
    left = torch.cat([changes[name.removesuffix(".weight")].flatten() for name in others] + [torch.full((4,), 0.5)])
    everything = torch.cat([*(delta.flatten() for delta in changes.values()), torch.full((4,), 0.5)])
    assert found.whole_error == pytest.approx(float(left.norm() / everything.norm()), rel=1e-4)


def test_models_that_are_alike_or_of_different_kinds_are_refused() -> None:
    base, rule = tiny_networks("SD 1.x"), RankRule.parse("4")
    for other, said in ((copy.deepcopy(base), "no weight"), (tiny_networks("SDXL"), "different kinds")):
        with pytest.raises(Fault, match="MOD03") as caught:
            extract(other, base, rule)
        assert said in caught.value.what
