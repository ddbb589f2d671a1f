"""Fused optimizers under float16's loss scale: told before the first step."""

import pytest
import torch
from torch import nn

from ldm.errors import Fault
from ldm.training.clipping import require_clippable


def adam(fused: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW([nn.Parameter(torch.zeros(2))], fused=fused)


def test_a_fused_optimizer_cannot_clip_under_a_loss_scale() -> None:
    with pytest.raises(Fault, match="fused AdamW cannot clip"):
        require_clippable([adam(False), adam(True)], 1.0, scaled=True)


@pytest.mark.parametrize(("fused", "clip", "scaled"), [(False, 1.0, True), (True, None, True), (True, 1.0, False)])
def test_all_else_can(fused: bool, clip: float | None, scaled: bool) -> None:
    require_clippable([adam(fused)], clip, scaled)
