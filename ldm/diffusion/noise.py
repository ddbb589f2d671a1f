"""Laws of the noise that examples are corrupted with, all keyed by slot."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ldm.admission import configurable
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.number_limits import FROM_ZERO, SHARE, Limited

NoiseLaw = Callable[[BatchDraws, Sequence[int]], Tensor]
"""(the batch's draws, (c, h, w)) -> noise (b, c, h, w), float32 on the CPU."""


@configurable
@dataclass(frozen=True)
class Gaussian:
    """White noise of unit variance (Ho et al. 2020)."""

    def __call__(self, draws: BatchDraws, shape: Sequence[int]) -> Tensor:
        return draws.normal("noise", shape)


@configurable
@dataclass(frozen=True)
class Offset(Limited):
    """White noise plus `strength` times one number for each whole channel, so that a model learns to move the mean too.

    Guttenberg 2023, "Diffusion with offset noise". The variance is 1 + strength^2.

    strength  standard deviation of that number, beside white noise of 1
    """

    limits = {"strength": FROM_ZERO}
    strength: float = 0.1

    def __call__(self, draws: BatchDraws, shape: Sequence[int]) -> Tensor:
        channels = shape[0]
        return draws.normal("noise", shape) + self.strength * draws.normal("noise offset", (channels, 1, 1))


@configurable
@dataclass(frozen=True)
class Pyramid(Limited):
    """White noise plus ever coarser noise, each level half the size and `discount` times the strength of the last.

    Whitaker 2023, "Multi-resolution noise for diffusion model training". At most `levels` levels are added, until one
    is 1 x 1. Every level has the same variance at every pixel and the sum has variance 1, by arithmetic and not by
    measuring the batch, so that an example's noise follows from its slot alone.

    discount  strength of a level by that of the one before, 0 to 1
    levels  how many coarser levels at most
    """

    limits = {"discount": SHARE, "levels": FROM_ZERO}
    discount: float = 0.8
    levels: int = 6

    def __call__(self, draws: BatchDraws, shape: Sequence[int]) -> Tensor:
        channels, height, width = shape
        noise, variance = draws.normal("noise", shape), 1.0
        for level in range(1, self.levels + 1):
            coarse = (-(-height // 2**level), -(-width // 2**level))
            weight = self.discount**level
            noise += weight * enlarged(draws.normal(f"noise pyramid {level}", (channels, *coarse)), (height, width))
            variance += weight**2
            if coarse == (1, 1):
                break
        return noise / variance**0.5


def enlarged(noise: Tensor, size: tuple[int, int]) -> Tensor:
    """White noise (b, c, h, w) interpolated to `size`, with unit variance at every pixel."""
    spread = torch.outer(interpolation_norms(noise.shape[2], size[0]), interpolation_norms(noise.shape[3], size[1]))
    return F.interpolate(noise, size, mode="bilinear") / spread


def interpolation_norms(coarse: int, fine: int) -> Tensor:
    """Standard deviation (fine,) that linear interpolation leaves of `coarse` independent numbers of unit variance."""
    weights = F.interpolate(torch.eye(coarse, dtype=torch.float32, device="cpu")[None], fine, mode="linear")[0]
    return weights.norm(dim=0)
