"""Decay laws of the EMA: how much of the average survives between any two steps, in closed form."""

import math
from dataclasses import dataclass
from typing import Protocol

from ldm.admission import configurable

# The most that one interval may replace of a constant-decay average: against an update at every step this changes a
# drifting average by 0.5 % of its distance to the weights.
_REPLACED = 0.01


class Profile(Protocol):
    """A decay law. Steps are optimizer steps; step k averages in the weights as they are after k steps."""

    def log_beta(self, a: int, b: int) -> float:
        """Natural logarithm of the weight that the average of step `a` keeps at step `b >= a`; -inf means a plain copy.

        Composes: `log_beta(a, b) + log_beta(b, c) == log_beta(a, c)`, so an average may be updated at any step.
        """

    def interval_bound(self, total_steps: float) -> float:
        """The longest interval, in steps, that leaves the average of a run of `total_steps` in effect unchanged.

        `total_steps` is infinite where it is not known; an infinite result says that the law needs to know it.
        """

    def interval_error(self, interval: int, total_steps: float) -> float:
        """How far an update every `interval` steps moves the average of drifting weights, against one at every step.

        As a share of its distance to the weights; to leading order, so worth little above 0.1.
        """


@configurable
@dataclass(frozen=True)
class ConstantDecay:
    """Decay `decay` per step, in [0, 1); with `warmup`, step k uses min(decay, (1 + k) / (10 + k)) like CompVis and TF.

    The product of the warm-up over the steps a+1..b telescopes to that of (a + j) / (b + j) over j = 2..10, which is a
    power law of gamma = 8: a run shorter than 9 / (1 - decay) steps never reaches `decay`.

    decay  share of the average that a step keeps, in [0, 1)
    warmup  rise to it from 0.1 over the first steps
    """

    decay: float = 0.9999
    warmup: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.decay < 1.0:
            raise ValueError(f"decay must be at least 0 and below 1, got {self.decay}")

    @property
    def last_warmup_step(self) -> int:
        """The last step that decays faster than `decay`; 0 without warm-up."""
        return math.ceil((10 * self.decay - 1) / (1 - self.decay)) - 1 if self.warmup else 0

    def log_beta(self, a: int, b: int) -> float:
        end = min(max(a, self.last_warmup_step), b)
        return sum(math.log1p((a - end) / (end + j)) for j in range(2, 11)) + _log_power(self.decay, b - end)

    def interval_bound(self, total_steps: float) -> float:
        bound = _REPLACED / (1 - self.decay)
        return min(bound, PowerDecay.of_gamma(8).interval_bound(total_steps)) if self.warmup else bound

    def interval_error(self, interval: int, total_steps: float) -> float:
        error = _drift(self.decay, interval)
        return max(error, PowerDecay.of_gamma(8).interval_error(interval, total_steps)) if self.warmup else error


@configurable
@dataclass(frozen=True)
class TrailingMean:
    """A simple moving average: the plain mean of the weights of the last `steps` steps, or of as many as there were.

    It is no decay, since old weights leave at once: it is kept as the means of `blocks` blocks of steps and of the one
    that grows (`ldm.ema.trailing_mean`), so in the memory of about blocks + 2 copies of the weights. What is asked of
    a decay is answered by the exponential average of the same mean age, alpha = 2 / (steps + 1).

    steps  how many of the last steps are averaged
    blocks  parts of which one at a time is dropped; more are more exact and take more memory
    """

    steps: int
    blocks: int = 4

    def __post_init__(self) -> None:
        if self.steps < 1 or self.blocks < 1:
            raise ValueError(f"a mean of {self.steps} steps in {self.blocks} blocks: both have to be at least 1")

    def log_beta(self, a: int, b: int) -> float:
        return _log_power(decay_of_span(self.steps), b - a)

    def interval_bound(self, total_steps: float) -> float:
        return _REPLACED * self.steps / 2

    def interval_error(self, interval: int, total_steps: float) -> float:
        return _drift(decay_of_span(self.steps), interval)


@dataclass(frozen=True)
class HalfLife:
    """Weights of `steps` steps ago count half as much as those of now."""

    steps: float

    def __post_init__(self) -> None:
        if not self.steps > 0:
            raise ValueError(f"a half-life must be above 0 steps, got {self.steps}")

    @property
    def decay(self) -> float:
        """The same law as a decay per step."""
        return 2 ** (-1 / self.steps)

    def log_beta(self, a: int, b: int) -> float:
        return -(b - a) * math.log(2) / self.steps

    def interval_bound(self, total_steps: float) -> float:
        return _REPLACED / (1 - self.decay)

    def interval_error(self, interval: int, total_steps: float) -> float:
        return _drift(self.decay, interval)


@configurable
@dataclass(frozen=True)
class PowerDecay:
    """The power-function average (Karras et al. 2024, arXiv 2312.02696, section 3.1): step k weighs as k^gamma.

    `sigma_rel`, in (0, 12^-1/2], is the standard deviation of that profile as a share of the training so far. Keeps
    (1 - 1/t)^(gamma + 1) at step t, so (a / b)^(gamma + 1) over an interval, and nothing of the weights of step 0.

    sigma_rel  width of the average as a share of the run, above 0 and below about 0.29
    """

    sigma_rel: float = 0.10

    def __post_init__(self) -> None:
        gamma_of_sigma_rel(self.sigma_rel)

    @classmethod
    def of_gamma(cls, gamma: float) -> "PowerDecay":
        """The same law given by its exponent `gamma >= 0`."""
        return cls(sigma_rel_of_gamma(gamma))

    @property
    def gamma(self) -> float:
        return gamma_of_sigma_rel(self.sigma_rel)

    def log_beta(self, a: int, b: int) -> float:
        if a == b:
            return 0.0
        return (self.gamma + 1) * math.log(a / b) if a > 0 else -math.inf

    def interval_bound(self, total_steps: float) -> float:
        return total_steps / (50 * (self.gamma + 2))

    def interval_error(self, interval: int, total_steps: float) -> float:
        return (interval - 1) * (self.gamma + 2) / (2 * total_steps)


@configurable
@dataclass(frozen=True)
class InverseGamma:
    """Decay min(max_decay, 1 - (1 + n / inv_gamma)^-power) at the update after n steps, so that the first one copies.

    A power of 2/3 reaches 0.999 after 31,600 steps, a power of 3/4 after 10,000 (K. Crowson's rule of thumb). There is
    no closed form: an interval of N steps costs N logarithms.

    inv_gamma  steps after which the decay begins to rise
    power  how fast it rises
    max_decay  the decay that it never exceeds
    """

    inv_gamma: float = 1.0
    power: float = 2 / 3
    max_decay: float = 0.9999

    def __post_init__(self) -> None:
        if not (self.inv_gamma > 0 and self.power > 0 and 0 <= self.max_decay < 1):
            raise ValueError(f"inv_gamma and power must be above 0 and max_decay in [0, 1), got {self}")

    def log_beta(self, a: int, b: int) -> float:
        return math.fsum(_log_power(self._decay(n), 1) for n in range(a, b)) if a > 0 or a == b else -math.inf

    def interval_bound(self, total_steps: float) -> float:
        return _REPLACED / (1 - self._decay(total_steps))

    def interval_error(self, interval: int, total_steps: float) -> float:
        return _drift(self._decay(total_steps), interval)

    def _decay(self, n: float) -> float:
        return min(self.max_decay, 1 - (1 + n / self.inv_gamma) ** -self.power)


def largest_interval(profile: Profile, total_steps: int | None = None) -> int:
    """The longest `update_every` that is safe for `profile`, in steps; arithmetic alone, the same on every machine.

    N (1 - decay) <= 0.01 for constant decays and N <= T / (50 (gamma + 2)) for power laws of a run of T steps, the
    warm-up of `ConstantDecay` among them. Raises ValueError if the law needs `total_steps` and it is None.
    """
    bound = profile.interval_bound(math.inf if total_steps is None else total_steps)
    if math.isinf(bound):
        raise ValueError(
            f"the longest interval of {profile} depends on the length of the run: give total_steps, "
            "or update_every as a number"
        )
    return max(1, math.floor(bound * (1 + 1e-9)))  # 0.01 / (1 - 0.999) is 9.99... in floating point


def decay_of_span(steps: float) -> float:
    """The decay 1 - alpha with alpha = 2 / (steps + 1): weights are as old on average as in a mean of `steps` steps."""
    if not 1 <= steps < math.inf:
        raise ValueError(f"a span must be at least 1 step, got {steps}")
    return (steps - 1) / (steps + 1)


def sigma_rel_of_gamma(gamma: float) -> float:
    """Width of the power law of exponent `gamma >= 0` (Karras et al. 2024, equation 123)."""
    if not 0 <= gamma < math.inf:
        raise ValueError(f"gamma must be at least 0, got {gamma}")
    return math.sqrt((gamma + 1) / (gamma + 3)) / (gamma + 2)


def gamma_of_sigma_rel(sigma_rel: float) -> float:
    """Exponent of the power law of relative width `sigma_rel` in (0, 12^-1/2] (Karras et al. 2024, algorithm 2)."""
    widest = 12**-0.5
    if not 0 < sigma_rel <= round(widest, 4):
        exponent = 1 < sigma_rel < 1e6
        hint = f"; gamma = {sigma_rel:g} is the width {sigma_rel_of_gamma(sigma_rel):.4f}" if exponent else ""
        raise ValueError(f"sigma_rel must be above 0 and at most {widest:.4f} (a flat average), got {sigma_rel}{hint}")
    sigma_rel = min(sigma_rel, widest)  # as written, 0.2887 is a little more
    low, high = 0.0, 1 / sigma_rel  # the width falls with gamma and stays below 1 / (gamma + 2)
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if sigma_rel_of_gamma(middle) > sigma_rel else (low, middle)
    return low


def _drift(decay: float, interval: int) -> float:
    """An update every N steps shortens the lag of 1 / (1 - decay) steps by (N - 1) / 2."""
    return (interval - 1) * (1 - decay) / 2


def _log_power(decay: float, steps: int) -> float:
    """log(decay^steps), also for a decay of 0."""
    if steps == 0:
        return 0.0
    return steps * math.log(decay) if decay > 0 else -math.inf
