"""The adaptive weight: norms by hand, and what a loss scale does to it."""

import pytest
import torch
from torch import Tensor, nn

from ldm.modules.losses.adaptive import adaptive_weight


def alone(tensor: Tensor) -> Tensor:
    return tensor


def test_it_is_the_ratio_of_the_two_pulls_at_the_last_layer() -> None:
    last = torch.zeros(2, 2, requires_grad=True)
    a, b = torch.tensor([[3.0, 0.0], [0.0, 4.0]]), torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    weight = adaptive_weight((a * last).sum(), (b * last).sum(), last, alone)
    assert weight.item() == pytest.approx(5.0 / (1.0 + 1e-4))
    assert not weight.requires_grad and last.grad is None


def test_with_nothing_to_pull_against_it_is_large_but_finite() -> None:
    last = torch.ones(1, requires_grad=True)
    assert adaptive_weight(last.sum(), 0 * last.sum(), last, alone).item() == pytest.approx(1e4)


def test_gradients_are_averaged_over_ranks_before_their_norms() -> None:
    last = torch.zeros(2, requires_grad=True)
    other_rank = torch.tensor([-1.0, 3.0])
    weight = adaptive_weight((torch.tensor([1.0, 1.0]) * last).sum(), last[0], last, lambda own: (own + other_rank) / 2)
    assert weight.item() == pytest.approx(2.0 / ((0.0**2 + 1.5**2) ** 0.5 + 1e-4))


def test_a_loss_scale_would_make_it_infinite_in_half_precision() -> None:
    """CompVis' sum times the scale that a GradScaler begins with, through a float16 layer: the naive version fails."""
    layer = nn.Conv2d(8, 3, 3, padding=1)
    x = torch.rand(1, 8, 64, 64, generator=torch.Generator().manual_seed(0))

    def losses() -> tuple[Tensor, Tensor]:
        with torch.autocast("cpu", dtype=torch.float16):
            made = layer(x)
        return made.float().abs().sum(), made.float().mean()

    naive = adaptive_weight(*(65536 * loss for loss in losses()), layer.weight, alone)
    assert not naive.isfinite()
    numbers = 3 * 64 * 64
    reconstruction, adversarial = losses()
    fine = adaptive_weight(reconstruction / numbers, adversarial, layer.weight, alone)
    made = layer(x)
    exact = adaptive_weight(made.abs().mean(), made.mean(), layer.weight, alone)
    assert fine.item() == pytest.approx(exact.item(), rel=0.02)
