"""Laws of the timestep: which noise level an example is trained at.

A law is a quantile function of one uniform number an example, which is keyed by its slot: so any of them can be
stratified, and an example keeps its level whatever it is batched with.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.path import Path
from ldm.errors import Fault

TimestepLaw = Callable[[BatchDraws, Path, Sequence[int]], Tensor]
"""(the batch's draws, path, (c, h, w) of what is noised) -> t (b,) of the path, on the CPU."""


class QuantileLaw(ABC):
    """A law given by its quantile function."""

    @abstractmethod
    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        """t (b,) of the path at u (b,) float64 in [0, 1), for examples of `shape` (c, h, w)."""

    def __call__(self, draws: BatchDraws, path: Path, shape: Sequence[int]) -> Tensor:
        return self.quantile(draws.uniform("timestep").double(), path, shape)


@configurable
@dataclass(frozen=True)
class UniformTimesteps(QuantileLaw):
    """Every timestep alike (Ho et al. 2020, algorithm 1)."""

    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        return path.between(u, 0, path.timesteps)


@configurable
@dataclass(frozen=True)
class Range(QuantileLaw):
    """Every timestep in [low, high) alike, as for an expert of some noise levels.

    Raises `Fault` CFG03 for a range that is empty or reaches beyond the path.
    """

    low: int
    high: int

    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        if not 0 <= self.low < self.high <= path.timesteps:
            what = f"timesteps from {self.low} up to, not including, {self.high} were asked for"
            raise Fault("CFG03", what, why=f"they must lie in 0 ... {path.timesteps} and be at least one")
        return path.between(u, self.low, self.high)


@configurable
@dataclass(frozen=True)
class Stratified(QuantileLaw):
    """A law in `global_batch` strata of equal probability, each of which a global batch meets once.

    That leaves less noise in the gradient. The stratum of an example is its slot modulo the global batch, so that it
    does not depend on ranks or micro-batches (the low-discrepancy sampler of Kingma et al. 2021, arXiv 2107.00630, app.
    I.1, with independent draws).

    law  what is cut into strata, `UniformTimesteps` unless given
    """

    global_batch: int
    law: QuantileLaw = field(default_factory=UniformTimesteps)

    def __call__(self, draws: BatchDraws, path: Path, shape: Sequence[int]) -> Tensor:
        strata = torch.tensor([row.slot % self.global_batch for row in draws.rows])
        u = (strata + draws.uniform("timestep").double()) / self.global_batch
        return self.quantile(u, path, shape)

    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        return self.law.quantile(u, path, shape)
