"""Laws of the timestep: which noise level an example is trained at.

A law is a quantile function of one uniform number an example, which is keyed by its slot: so any of them can be
stratified, and an example keeps its level whatever it is batched with.

Laws of Stable Diffusion 3 (Esser et al. 2024, arXiv 2403.03206, sec. 3.1) are written for the t of rectified flow,
sigma / (alpha + sigma): ln SNR = -2 logit t. Another path is given the level with that SNR, or the nearest.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.number_limits import FINITE, FROM_ONE, FROM_ZERO, POSITIVE, Interval, Limited
from ldm.diffusion.path import Path
from ldm.errors import Fault

TimestepLaw = Callable[[BatchDraws, Path, Sequence[int]], Tensor]
"""(the batch's draws, path, (c, h, w) of what is noised) -> t (b,) of the path, on the CPU."""


class QuantileLaw(Limited, ABC):
    """A law given by its quantile function."""

    @abstractmethod
    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        """t (b,) of the path at u (b,) float64 in [0, 1), for examples of `shape` (c, h, w)."""

    def log_snr(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        """ln SNR (b,) float64 of the same levels; it may be infinite."""
        return path.log_snr(self.quantile(u, path, shape))

    def __call__(self, draws: BatchDraws, path: Path, shape: Sequence[int]) -> Tensor:
        return self.quantile(draws.uniform("timestep").double(), path, shape)


class LogSnrLaw(QuantileLaw):
    """A law given by the quantile function of its ln SNR, whatever the path."""

    @abstractmethod
    def log_snr(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor: ...

    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        return path.at_log_snr(self.log_snr(u, path, shape))


@configurable
@dataclass(frozen=True)
class UniformTimesteps(QuantileLaw):
    """Every timestep alike (Ho et al. 2020, algorithm 1)."""

    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        return path.between(u, 0, path.timesteps)


_EVERY = UniformTimesteps()


@configurable
@dataclass(frozen=True)
class Range(QuantileLaw):
    """Every timestep in [low, high) alike, as for an expert of some noise levels.

    Raises `Fault` CFG03 for a range that is empty or reaches beyond the path.

    low, high  first timestep, and the first one beyond
    """

    limits = {"low": FROM_ZERO, "high": FROM_ONE}
    low: int
    high: int

    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        if not 0 <= self.low < self.high <= path.timesteps:
            what = f"timesteps from {self.low} up to, not including, {self.high} were asked for"
            raise Fault("CFG03", what, why=f"they must lie in 0 ... {path.timesteps} and be at least one")
        return path.between(u, self.low, self.high)


@configurable
@dataclass(frozen=True)
class LogitNormal(LogSnrLaw):
    """The logit of t is normal, so that the middle levels come most: Stable Diffusion 3's law with mean 0 and std 1.

    mean  above 0 noisier levels
    std   of the logit; a larger one meets the ends more

    Raises `Fault` CFG03 for numbers that make no law.
    """

    limits = {"mean": FINITE, "std": POSITIVE}
    mean: float = 0.0
    std: float = 1.0

    def log_snr(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        return -2 * (self.mean + self.std * torch.special.ndtri(1 - u))


@configurable
@dataclass(frozen=True)
class LogNormal(LogSnrLaw):
    """ln sigma is normal: EDM's law (Karras et al. 2022, arXiv 2206.00364, table 1), with its numbers.

    Where the data have unit variance it is `LogitNormal` with the same two numbers, since sigma is t / (1 - t).

    mean        P_mean, of ln sigma; above that of the paper noisier levels
    std         P_std
    sigma_data  deviation of the data beside which sigma is meant: 0.5 in the paper, 1 for a sigma of unit-variance data

    Raises `Fault` CFG03 for numbers that make no law.
    """

    limits = {"mean": FINITE, "std": POSITIVE, "sigma_data": POSITIVE}
    mean: float = -1.2
    std: float = 1.2
    sigma_data: float = 0.5

    def log_snr(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        of_unit_variance = LogitNormal(self.mean - math.log(self.sigma_data), self.std)
        return of_unit_variance.log_snr(u, path, shape)


@configurable
@dataclass(frozen=True)
class Mode(LogSnrLaw):
    """t = 1 - u - scale (cos^2(pi u / 2) - 1 + u), the middle levels most where `scale` is above 0, and both ends met.

    scale  above 0 the middle most, 0 all alike, below 0 the ends

    Raises `Fault` CFG03 unless -1 <= scale <= 2 / (pi - 2), beyond which it is no quantile function.
    """

    limits = {"scale": Interval(-1, 2 / (math.pi - 2))}
    scale: float = 1.29

    def log_snr(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        return -2 * torch.logit(1 - u - self.scale * ((math.pi / 2 * u).cos() ** 2 - 1 + u))


@configurable
@dataclass(frozen=True)
class CosMap(LogSnrLaw):
    """The levels of the cosine schedule with t even: density 2 / (pi - 2 pi t + 2 pi t^2)."""

    def log_snr(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        return -2 * (math.pi / 2 * (1 - u)).tan().log()  # t = 1 - 1 / (tan + 1)


@configurable
@dataclass(frozen=True)
class Shifted(LogSnrLaw):
    """A law moved to noisier levels: the SNR divided by c^2, t' = c t / (1 + (c - 1) t) (sec. 5.3.2 of that paper).

    More pixels of the same picture need more noise to be hidden by it. SD 3 has 3 at 1024 pixels a side.

    factor     c; below 1 cleaner levels
    law        what is moved
    base_side  side of what is noised (latents, or pixels) at which c is `factor`; there c grows as the side does. None:
               the same for every size

    Raises `Fault` CFG03 for a factor or a side that is no number above 0.
    """

    limits = {"factor": POSITIVE, "base_side": POSITIVE}
    factor: float
    law: QuantileLaw = _EVERY
    base_side: float | None = None

    def log_snr(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        larger = math.sqrt(shape[-1] * shape[-2]) / self.base_side if self.base_side else 1.0
        return self.law.log_snr(u, path, shape) - 2 * math.log(self.factor * larger)


@configurable
@dataclass(frozen=True)
class Stratified(Limited):
    """A law in `global_batch` strata of equal probability, each of which a global batch meets once.

    That leaves less noise in the gradient. The stratum of an example is its slot modulo the global batch, so that it
    does not depend on ranks or micro-batches (the low-discrepancy sampler of Kingma et al. 2021, arXiv 2107.00630, app.
    I.1, with independent draws).

    global_batch  examples of a step, on all ranks and micro-batches
    law           what is cut into strata
    """

    limits = {"global_batch": FROM_ONE}
    global_batch: int
    law: QuantileLaw = _EVERY

    def __call__(self, draws: BatchDraws, path: Path, shape: Sequence[int]) -> Tensor:
        strata = torch.tensor([row.slot % self.global_batch for row in draws.rows])
        u = (strata + draws.uniform("timestep").double()) / self.global_batch
        return self.law.quantile(u, path, shape)
