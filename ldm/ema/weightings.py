"""Averages after training of other shapes than power functions: how much the weights of each step count.

Whatever is called with steps s (n,) in (0, time] and the last step `time`, and gives (n,) numbers of 0 or more, is one;
they need not add up to anything. `ldm.ema.posthoc.fit_weighting` makes the average of the snapshots that there are.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ldm.admission import configurable
from ldm.diffusion.number_limits import POSITIVE, Limited, Limits

Vector = NDArray[np.float64]


class Weighting(Protocol):
    """How much the weights of each step count in an average at step `time`."""

    def __call__(self, s: Vector, time: float) -> Vector: ...


@configurable
@dataclass(frozen=True)
class LastSteps(Limited):
    """The plain mean of the last `steps` steps, as `ldm.ema.profiles.TrailingMean` keeps it while training.

    steps  how many of the last steps count
    """

    limits: ClassVar[Limits] = {"steps": POSITIVE}

    steps: float

    def __call__(self, s: Vector, time: float) -> Vector:
        return np.asarray(s > time - self.steps, np.float64)


@configurable
@dataclass(frozen=True)
class HalfLifeSteps(Limited):
    """An exponential average: weights count half as much every `steps` steps back, as `half_life_steps` has it.

    steps  after which weights count half
    """

    limits: ClassVar[Limits] = {"steps": POSITIVE}

    steps: float

    def __call__(self, s: Vector, time: float) -> Vector:
        return np.asarray(np.exp2((s - time) / self.steps), np.float64)
