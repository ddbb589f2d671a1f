"""What of a model is kept in half precision, and clipping in mixed precision."""

import pytest
import torch
from support.adapted import adapted
from torch import nn

from lun.strategies.half import MasterWeights, Mixed, RoundedWeights
from lun.strategies.precision import Bf16Mixed


def network() -> nn.Sequential:
    """A frozen layer with an adapter, of which one matrix is frozen; and a part that overflows in float16."""
    layers = nn.Sequential(nn.Linear(12, 16).requires_grad_(False), nn.Linear(16, 2).requires_grad_(False))
    adapted("LoRA", layers[0]).down.requires_grad_(False)  # type: ignore[operator, union-attr]
    layers[1].overflows_in_float16 = True  # type: ignore[assignment]
    return layers


@pytest.mark.parametrize(
    ("plugin", "overflowing"),
    [
        (Mixed("16-mixed", "cpu", torch.amp.GradScaler("cpu"), frozen_half=True), torch.float32),
        (Mixed("bf16-mixed", "cpu", frozen_half=True), torch.bfloat16),
        (RoundedWeights("cpu"), torch.bfloat16),
        (MasterWeights("cpu"), torch.bfloat16),
    ],
    ids=["16-mixed", "bf16-mixed", "bf16-true", "bf16-master"],
)
def test_adapters_stay_precise_also_where_they_are_frozen(plugin: Mixed, overflowing: torch.dtype) -> None:
    model = plugin.convert_module(network())
    kept = {name: parameter.dtype for name, parameter in model.named_parameters()}
    assert kept["0.adapter.down"] == kept["0.adapter.up"] == torch.float32
    assert kept["0.weight"] == (torch.float16 if plugin.precision == "16-mixed" else torch.bfloat16)
    assert kept["1.weight"] == overflowing


@pytest.mark.parametrize("fused", [False, True])
def test_gradients_that_nothing_scaled_are_clipped_whatever_steps_them(fused: bool) -> None:
    weight = torch.nn.Parameter(torch.zeros(4))
    weight.grad = torch.ones(4)
    Bf16Mixed().plugin("cpu").clip_gradients(torch.optim.AdamW([weight], fused=fused), clip_val=1.0)
    torch.testing.assert_close(weight.grad, torch.full((4,), 0.5))
