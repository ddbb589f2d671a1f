"""Clipping by a norm that is known, and what cannot clip: told before the first step."""

import pytest
import torch
from lightning.pytorch.plugins.precision import DeepSpeedPrecision, FSDPPrecision, MixedPrecision, Precision
from torch import nn
from torch.nn.utils import clip_grad_norm_, get_total_norm

from ldm.errors import Fault
from ldm.training.clipping import KnownNorm, clipped, clips_plainly, require_clippable


def adam(fused: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW([nn.Parameter(torch.zeros(2))], fused=fused)


def test_a_fused_optimizer_cannot_clip_under_a_loss_scale() -> None:
    with pytest.raises(Fault, match="fused AdamW cannot clip"):
        require_clippable([adam(False), adam(True)], 1.0, scaled=True)


@pytest.mark.parametrize(("fused", "clip", "scaled"), [(False, 1.0, True), (True, None, True), (True, 1.0, False)])
def test_all_else_can(fused: bool, clip: float | None, scaled: bool) -> None:
    require_clippable([adam(fused)], clip, scaled)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("size", [0.0, 0.1, 0.9999995, 1.0, 1.0000005, 3.0, float("inf")])
def test_gradients_are_clipped_as_torch_does_to_the_bit(dtype: torch.dtype, size: float) -> None:
    numbers = torch.Generator().manual_seed(0)
    gradients = [torch.randn(shape, generator=numbers) for shape in ((7,), (3, 5), ())]
    whole = get_total_norm(gradients)
    theirs, ours = ([nn.Parameter(torch.zeros_like(one, dtype=dtype)) for one in gradients] for _ in range(2))
    for mine, other, gradient in zip(ours, theirs, gradients, strict=True):
        scaled = gradient / whole * size if size != float("inf") else gradient * 1e30
        mine.grad, other.grad = scaled.to(dtype), scaled.to(dtype)
    clip_grad_norm_(theirs, 1.0)
    norm = get_total_norm([one.grad for one in ours if one.grad is not None])
    KnownNorm(torch.optim.SGD(ours, lr=1.0), norm, float(norm)).clip(1.0)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None and other.grad is not None
        assert torch.equal(mine.grad, other.grad)


def test_what_clips_otherwise_is_left_to_it() -> None:
    scaled = MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))
    others = [FSDPPrecision("32-true"), scaled, DeepSpeedPrecision.__new__(DeepSpeedPrecision)]
    assert not any(map(clips_plainly, others))
    assert clips_plainly(Precision()) and clips_plainly(MixedPrecision("bf16-mixed", "cpu"))


def test_nothing_is_clipped_where_no_gradients_are_left() -> None:
    weights = [torch.nn.Parameter(torch.zeros(2)) for _ in range(2)]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    assert clipped(optimizer, None, 1.0, Precision())
    weights[1].grad = torch.ones(2)
    assert not clipped(optimizer, None, 1.0, Precision())
