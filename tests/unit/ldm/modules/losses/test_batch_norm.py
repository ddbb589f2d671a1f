"""Batch normalisation by all ranks' pictures: alone it is torch's, and two ranks are one process with both batches."""

import pytest
import torch
from torch import Tensor, distributed, nn

from ldm.modules.losses import batch_norm
from ldm.modules.losses.batch_norm import BatchNorm


@pytest.fixture
def pictures() -> Tensor:
    return 3 + 2 * torch.randn(2, 4, 5, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second rank that holds the same pictures as this one."""
    monkeypatch.setattr(batch_norm, "_ranks", lambda: 2)
    monkeypatch.setattr(distributed, "all_reduce", lambda tensor: tensor.mul_(2))


def passed(layer: nn.BatchNorm2d, pictures: Tensor, keep: int) -> list[Tensor]:
    """What comes out, the gradients of a loss of it, and the layer's numbers, of the first `keep` pictures."""
    pictures = pictures.clone().requires_grad_()
    out = layer(pictures)
    (out * out.sin()).sum().backward()
    assert pictures.grad is not None and layer.weight.grad is not None
    shares = [layer.weight.grad * keep / len(pictures), layer.bias.grad * keep / len(pictures)]
    return [out[:keep], pictures.grad[:keep], *shares, *layer.buffers()]


def test_alone_it_is_torchs_to_the_bit(pictures: Tensor) -> None:
    for ours, torchs in zip(passed(BatchNorm(4), pictures, 2), passed(nn.BatchNorm2d(4), pictures, 2), strict=True):
        assert torch.equal(ours, torchs)


def test_two_ranks_are_one_process_with_both_batches(pictures: Tensor, twins: None) -> None:
    both = torch.cat([pictures, pictures])
    for ours, torchs in zip(passed(BatchNorm(4), pictures, 2), passed(nn.BatchNorm2d(4), both, 2), strict=True):
        torch.testing.assert_close(ours, torchs)


def test_in_validation_ranks_ask_each_other_nothing(pictures: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_norm, "_ranks", lambda: 2)
    assert torch.equal(BatchNorm(4).eval()(pictures), nn.BatchNorm2d(4).eval()(pictures))


def test_half_precision_comes_out_as_it_went_in(pictures: Tensor, twins: None) -> None:
    assert BatchNorm(4)(pictures.bfloat16()).dtype == torch.bfloat16
