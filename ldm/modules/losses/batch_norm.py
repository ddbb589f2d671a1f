"""Batch normalisation (Ioffe and Szegedy 2015, arXiv 1502.03167) by the pictures of all ranks."""

from typing import Any

import torch
from torch import Tensor, distributed, nn


class BatchNorm(nn.BatchNorm2d):
    """Normalises by the micro-batches of all ranks together, as one process with all of these pictures would.

    On one rank, and in validation, it is torch's own layer. torch has one for several ranks, too, but for GPUs alone;
    it takes the place of this one under `sync_batchnorm: true`, and gives the same.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(b, c, h, w) to the same. Collective in training: all ranks have to take part, with b of their own."""
        if not self.training or _ranks() == 1:
            return super().forward(x)
        local = torch.full((1,), float(x.numel() // x.shape[1]), device=x.device)
        total = _SumOverRanks.apply(torch.cat([x.float().sum((0, 2, 3)), local]))
        mean, count = total[:-1] / total[-1], total[-1].detach()
        centred = x.float() - _as_channels(mean)
        variance = _SumOverRanks.apply(centred.square().sum((0, 2, 3))) / count
        self._remember(mean.detach(), variance.detach() * (count / (count - 1).clamp(min=1)))
        scale = self.weight * torch.rsqrt(variance + self.eps)
        return (centred * _as_channels(scale) + _as_channels(self.bias)).to(x.dtype)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        """Move the running numbers, by which validation normalises."""
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean.to(self.running_mean), self.momentum or 0.0)
        self.running_var.lerp_(variance.to(self.running_var), self.momentum or 0.0)


class _SumOverRanks(torch.autograd.Function):
    """A sum over ranks, of which each rank's part gets the gradients of all of them."""

    @staticmethod
    def forward(ctx: Any, part: Tensor) -> Tensor:
        total = part.clone()
        distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _SumOverRanks.forward(ctx, gradient)


def _ranks() -> int:
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def _as_channels(values: Tensor) -> Tensor:
    return values[:, None, None]
