"""A law of the timestep, restricted for each example to a range of noise levels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ldm.diffusion.path import Path
from ldm.diffusion.timesteps import QuantileLaw, Stratified, TimestepLaw
from ldm.errors import Fault

_HALVINGS = 50


def restricted(law: TimestepLaw, ranges: Tensor) -> TimestepLaw:
    """`law` given that row b lies in [low, high), `ranges` (b, 2) int64; a high of -1 means up to the last level.

    Raises `Fault` CFG08 for a law that is not given by its quantiles.
    """
    if isinstance(law, QuantileLaw):
        return _Within(law, ranges)
    if isinstance(law, Stratified):
        return replace(law, law=_Within(law.law, ranges))
    raise Fault(
        "CFG08",
        f"timesteps of one set need a law given by its quantiles, and {type(law).__name__} is none",
        where="model.params.objective.params.timesteps",
        fix="a subclass of ldm.diffusion.timesteps.QuantileLaw, or no timesteps in data.params.train.sets",
    )


@dataclass(frozen=True)
class _Within(QuantileLaw):
    """The quantiles of `law` between those of the ends of the ranges, found by bisection."""

    law: QuantileLaw
    ranges: Tensor

    def quantile(self, u: Tensor, path: Path, shape: Sequence[int]) -> Tensor:
        """Raises `Fault` CFG08 for a range that reaches beyond the path, or where the law has no levels."""
        low, high = self.ranges.cpu().unbind(1)
        high = torch.where(high < 0, path.timesteps, high)

        def level(share: Tensor) -> Tensor:
            return _level(self.law.quantile(share, path, shape), path)

        ends = level(torch.tensor([0.0, 1 - 2.0**-40], dtype=torch.float64, device="cpu").repeat(len(u), 1).T.flatten())
        rises = bool((ends[len(u) :] >= ends[: len(u)]).all())  # whether larger quantiles are noisier levels

        def along(share: Tensor) -> Tensor:
            return share if rises else (1 - share).clamp(max=1 - 2.0**-53)

        first = torch.where(low > 0, _edge(low, lambda v: level(along(v)))[1], 0.0)
        last = torch.where(high < path.timesteps, _edge(high, lambda v: level(along(v)))[0], 1.0)
        if bool((high > path.timesteps).any()) or bool((first >= last).any()):
            raise _unmet(low, high, path, (first >= last) | (high > path.timesteps))
        return self.law.quantile(along(first + along(u) * (last - first)), path, shape)


def _level(t: Tensor, path: Path) -> Tensor:
    """The number of the named level that t belongs to; on a continuous path level k holds (k, k + 1] / timesteps."""
    return t if path.discrete else (t.double() * path.timesteps).ceil() - 1


def _edge(wanted: Tensor, level: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """(b,) below and above where a rising `level` reaches `wanted`."""
    below, above = torch.zeros(len(wanted), dtype=torch.float64), torch.ones(len(wanted), dtype=torch.float64)
    for _ in range(_HALVINGS):
        middle = (below + above) / 2
        reached = level(middle) >= wanted
        below, above = torch.where(reached, below, middle), torch.where(reached, middle, above)
    return below, above


def _unmet(low: Tensor, high: Tensor, path: Path, which: Tensor) -> Fault:
    row = int(which.int().argmax())
    return Fault(
        "CFG08",
        f"the run trains no timestep from {int(low[row])} up to, not including, {int(high[row])}",
        where="timesteps in data.params.train.sets",
        why=f"the path has {path.timesteps}, of which model.params.objective.params.timesteps may leave some out",
        fix=f"timesteps: [0, {path.timesteps}]",
    )
