"""Laws of the timestep: which noise level an example is trained at."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault

TimestepLaw = Callable[[BatchDraws, int], Tensor]
"""(the batch's draws, number of timesteps) -> t (b,) int64 in [0, timesteps)."""


@configurable
@dataclass(frozen=True)
class Uniform:
    """Every timestep alike (Ho et al. 2020, algorithm 1)."""

    def __call__(self, draws: BatchDraws, timesteps: int) -> Tensor:
        return scaled(draws.uniform("timestep"), 0, timesteps)


@configurable
@dataclass(frozen=True)
class Range:
    """Every timestep in [low, high) alike, as for an expert of some noise levels.

    Raises `Fault` CFG03 for a range that is empty or reaches beyond the path.
    """

    low: int
    high: int

    def __call__(self, draws: BatchDraws, timesteps: int) -> Tensor:
        if not 0 <= self.low < self.high <= timesteps:
            what = f"timesteps from {self.low} up to, not including, {self.high} were asked for"
            raise Fault("CFG03", what, why=f"they must lie in 0 ... {timesteps} and be at least one")
        return scaled(draws.uniform("timestep"), self.low, self.high)


@configurable
@dataclass(frozen=True)
class Stratified:
    """Uniform in `global_batch` equal strata, each of which a global batch meets once: less noise in the gradient.

    The stratum of an example is its slot modulo the global batch, so that it does not depend on ranks or micro-batches
    (the low-discrepancy sampler of Kingma et al. 2021, arXiv 2107.00630, app. I.1, with independent draws).
    """

    global_batch: int

    def __call__(self, draws: BatchDraws, timesteps: int) -> Tensor:
        strata = torch.tensor([row.slot % self.global_batch for row in draws.rows])
        return scaled((strata + draws.uniform("timestep").double()) / self.global_batch, 0, timesteps)


def scaled(uniform: Tensor, low: int, high: int) -> Tensor:
    """Numbers (b,) in [0, 1) as integers in [low, high): (b,) int64; in float64, which cannot round up to `high`."""
    return low + (uniform.double() * (high - low)).long()
