"""Learning-rate schedules: callables that give the factor on the base learning rate at an optimizer step."""

import logging
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ldm.admission import configurable
from ldm.errors import Fault

log = logging.getLogger(__name__)


def progress(step: float, start: float, end: float) -> float:
    """How far `step` is from `start` to `end`, in [0, 1]; 1 where there is nothing in between."""
    return min(1.0, max(0.0, (step - start) / (end - start))) if end > start else 1.0


def blend(first: float, last: float, share: float) -> float:
    """`first` at share 0, `last` at share 1, linear in between."""
    return first + (last - first) * share


def cosine(share: float) -> float:
    """Half a cosine from 0 to 1 (Loshchilov & Hutter 2017, arXiv 1608.03983, eq. 5)."""
    return 0.5 * (1 - math.cos(math.pi * share))


# Ours


@configurable
@dataclass(frozen=True)
class WarmupConstant:
    """Rises linearly over `warm_up_steps` optimizer steps, from more than 0 so that no step is lost, and stays at 1.

    warm_up_steps  optimizer steps of the rise
    """

    warm_up_steps: int = 0

    def __call__(self, step: int) -> float:
        return min(1.0, (step + 1) / (self.warm_up_steps + 1))


@configurable
@dataclass(frozen=True)
class WarmupCosine:
    """Rises as `WarmupConstant`, then falls along half a cosine to `minimum` at `total_steps`, and stays there.

    total_steps  optimizer steps to the end of the fall; by default those of the run
    warm_up_steps  optimizer steps of the rise
    minimum  the last factor, as a share of the rate
    """

    total_steps: int
    warm_up_steps: int = 0
    minimum: float = 0.0

    def __call__(self, step: int) -> float:
        if step < self.warm_up_steps:
            return WarmupConstant(self.warm_up_steps)(step)
        return blend(1.0, self.minimum, cosine(progress(step, self.warm_up_steps, self.total_steps)))


@configurable
@dataclass(frozen=True)
class WarmupLinear:
    """Rises as `WarmupConstant`, then falls along a line to `minimum` at `total_steps`, and stays there.

    total_steps  optimizer steps to the end of the fall; by default those of the run
    warm_up_steps  optimizer steps of the rise
    minimum  the last factor, as a share of the rate
    """

    total_steps: int
    warm_up_steps: int = 0
    minimum: float = 0.0

    def __call__(self, step: int) -> float:
        if step < self.warm_up_steps:
            return WarmupConstant(self.warm_up_steps)(step)
        return blend(1.0, self.minimum, progress(step, self.warm_up_steps, self.total_steps))


@configurable
@dataclass(frozen=True)
class WarmupRestarts:
    """Rises as `WarmupConstant`, then falls as `WarmupCosine` in `cycles` equal parts, each again from 1 (SGDR).

    total_steps  optimizer steps to the end of the last fall; by default those of the run
    warm_up_steps  optimizer steps of the rise
    cycles  how many falls
    minimum  the last factor of each, as a share of the rate
    """

    total_steps: int
    warm_up_steps: int = 0
    cycles: int = 4
    minimum: float = 0.0

    def __post_init__(self) -> None:
        if self.cycles < 1:
            raise ValueError(f"there have to be cycles, not {self.cycles}")

    def __call__(self, step: int) -> float:
        if step < self.warm_up_steps:
            return WarmupConstant(self.warm_up_steps)(step)
        share = progress(step, self.warm_up_steps, self.total_steps)
        within = share * self.cycles % 1.0 if share < 1 else 1.0
        return blend(1.0, self.minimum, cosine(within))


@configurable
@dataclass(frozen=True)
class WarmupRex:
    """Rises as `WarmupConstant`, then falls to 0 at `total_steps`, late and ever faster (Chen et al. 2021, arXiv
    2107.04197, sec. 3): (1 - t) / (1/2 + (1 - t) / 2).

    total_steps  optimizer steps to the end of the fall; by default those of the run
    warm_up_steps  optimizer steps of the rise
    """

    total_steps: int
    warm_up_steps: int = 0

    def __call__(self, step: int) -> float:
        if step < self.warm_up_steps:
            return WarmupConstant(self.warm_up_steps)(step)
        left = 1 - progress(step, self.warm_up_steps, self.total_steps)
        return left / (0.5 + 0.5 * left)


# CompVis'


class LambdaSchedule:
    """A schedule in CompVis' form: `schedule(n)` is the factor, a call may log it every `verbosity_interval` steps."""

    def __init__(self, verbosity_interval: int = 0) -> None:
        self.verbosity_interval = verbosity_interval

    def schedule(self, n: int) -> float:
        raise NotImplementedError

    def __call__(self, n: int) -> float:
        factor = self.schedule(n)
        if self.verbosity_interval > 0 and n % self.verbosity_interval == 0:
            log.info("optimizer step %d: learning rate factor %.6g", n, factor)
        return factor


@configurable
class LambdaWarmUpCosineScheduler(LambdaSchedule):
    """From `lr_start` linearly to `lr_max` in `warm_up_steps`, then along a cosine to `lr_min` at `max_decay_steps`.

    Despite their names the three are factors on the base learning rate.

    warm_up_steps  optimizer steps of the rise
    lr_min  the last factor
    lr_max  the largest factor
    lr_start  the first factor
    max_decay_steps  the optimizer step of the last factor
    verbosity_interval  every so many steps the factor is printed; 0 never
    """

    def __init__(
        self,
        warm_up_steps: int,
        lr_min: float,
        lr_max: float,
        lr_start: float,
        max_decay_steps: int,
        verbosity_interval: int = 0,
    ) -> None:
        super().__init__(verbosity_interval)
        self.warm_up_steps = warm_up_steps
        self.lr_min = lr_min
        self.lr_max = lr_max
        self.lr_start = lr_start
        self.max_decay_steps = max_decay_steps

    def schedule(self, n: int) -> float:
        if n < self.warm_up_steps:
            return blend(self.lr_start, self.lr_max, n / self.warm_up_steps)
        return blend(self.lr_max, self.lr_min, cosine(progress(n, self.warm_up_steps, self.max_decay_steps)))


@configurable
class LambdaWarmUpCosineScheduler2(LambdaSchedule):
    """Cycles, each from `f_start` linearly to `f_max` in its `warm_up_steps`, along a cosine to `f_min` at its end.

    All parameters are lists with one entry a cycle; `cycle_lengths` counts optimizer steps, warm-up included. The last
    step of a cycle still belongs to it, and after the last cycle the factor stays where that ended. Raises `Fault`
    CFG03 for lists of different lengths.

    warm_up_steps  optimizer steps of the rise, one number a cycle as for all
    f_min  the last factor of each cycle
    f_max  the largest factor of each
    f_start  the first factor of each
    cycle_lengths  optimizer steps of each cycle, the rise included
    verbosity_interval  every so many steps the factor is printed; 0 never
    """

    def __init__(
        self,
        warm_up_steps: Sequence[float],
        f_min: Sequence[float],
        f_max: Sequence[float],
        f_start: Sequence[float],
        cycle_lengths: Sequence[float],
        verbosity_interval: int = 0,
    ) -> None:
        super().__init__(verbosity_interval)
        lists = {
            "warm_up_steps": warm_up_steps,
            "f_min": f_min,
            "f_max": f_max,
            "f_start": f_start,
            "cycle_lengths": cycle_lengths,
        }
        if len({len(values) for values in lists.values()}) != 1 or not cycle_lengths:
            why = ", ".join(f"{name} has {len(values)}" for name, values in lists.items())
            raise Fault("CFG03", "a schedule in cycles needs one entry a cycle in each of its lists", why=why)
        self.warm_up_steps = list(warm_up_steps)
        self.f_min = list(f_min)
        self.f_max = list(f_max)
        self.f_start = list(f_start)
        self.cycle_lengths = list(cycle_lengths)

    def schedule(self, n: int) -> float:
        ends = list(accumulate(self.cycle_lengths))
        since_start = min(n, ends[-1])
        cycle = bisect_left(ends, since_start)
        within = since_start - (ends[cycle] - self.cycle_lengths[cycle])
        if within < self.warm_up_steps[cycle]:
            return blend(self.f_start[cycle], self.f_max[cycle], within / self.warm_up_steps[cycle])
        return self.decayed(cycle, within)

    def decayed(self, cycle: int, within: float) -> float:
        """The factor `within` steps into a cycle, after its warm-up."""
        share = progress(within, self.warm_up_steps[cycle], self.cycle_lengths[cycle])
        return blend(self.f_max[cycle], self.f_min[cycle], cosine(share))


@configurable
class LambdaLinearScheduler(LambdaWarmUpCosineScheduler2):
    """As `LambdaWarmUpCosineScheduler2`, but along a line from `f_max` at a cycle's start to `f_min` at its end.

    The line is that of the whole cycle, so the factor drops a little where the warm-up ends, as it always did.
    """

    def decayed(self, cycle: int, within: float) -> float:
        return blend(self.f_max[cycle], self.f_min[cycle], within / self.cycle_lengths[cycle])
