"""Any average from snapshots of a few power-function ones: which multiples of them add up to it, and how well.

Karras et al. 2024 (arXiv 2312.02696), section 3.2 and appendix C: an average of exponent g at time t weighs the
weights of time s <= t by p(s) = (g + 1) s^g / t^(g + 1). What is wanted is such a profile too, so it is fitted by the
stored ones in the least-squares sense; all integrals have a closed form. In float64, since near profiles cancel. Any
other weighting is fitted the same way, as its projection onto the stored profiles; its integrals are sums.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldm.ema.profiles import gamma_of_sigma_rel
from ldm.ema.weightings import Weighting

Vector = NDArray[np.float64]
_POINTS = 4096
_FINE = 1 << 16
"""Points at which a weighting without a closed form is looked at."""


@dataclass(frozen=True)
class PowerProfile:
    """The profile of a power-function average of relative width `sigma_rel` after `time` steps."""

    sigma_rel: float
    time: float

    @property
    def gamma(self) -> float:
        return gamma_of_sigma_rel(self.sigma_rel)


@dataclass(frozen=True)
class Fit:
    """Multiples of the stored profiles that come closest to a wanted one.

    coefficients   in the order of the stored profiles; they add up to 1, so that weights that never moved stay
    profile_error  distance of the profiles as a share of the wanted one's norm
    weight_error   what that does to weights that walk at random, as a share of the average's distance to the last ones
    amplification  by how much the stored averages' own, independent rounding errors grow
    """

    coefficients: Vector
    profile_error: float
    weight_error: float
    amplification: float

    @property
    def sum(self) -> float:
        return float(self.coefficients.sum())

    @property
    def absolute_sum(self) -> float:
        """The bound of `amplification`, when all rounding errors conspire."""
        return float(np.abs(self.coefficients).sum())


def inner(first: Sequence[PowerProfile], second: Sequence[PowerProfile]) -> Vector:
    """Integrals of the products of all pairs: (len(first), len(second)), per unit of time (appendix C.3).

    With m the earlier of both times, (g1 + 1) (g2 + 1) / (g1 + g2 + 1) * m^(g1 + g2 + 1) / (t1^(g1+1) t2^(g2+1)).
    """
    g1, t1 = _columns(first)
    g2, t2 = _columns(second)
    g1, t1 = g1[:, None], t1[:, None]
    m = np.minimum(t1, t2)
    # Quotients before powers: t^(g + 1) alone overflows for narrow profiles of long runs.
    powers = (m / t1) ** (g1 + 1) * (m / t2) ** (g2 + 1) / m
    result: Vector = (g1 + 1) * (g2 + 1) / (g1 + g2 + 1) * powers
    return result


def fit(stored: Sequence[PowerProfile], wanted: PowerProfile) -> Fit:
    """The best approximation of `wanted` by multiples of `stored`, all of whose times are at most `wanted.time`.

    ValueError if there is nothing stored, or something from the future.
    """
    _require_past(stored, wanted.time)
    coefficients = _solve(inner(stored, stored), inner(stored, [wanted])[:, 0])
    return Fit(
        coefficients,
        _profile_error(coefficients, stored, wanted),
        _weight_error(coefficients, stored, wanted),
        float(np.sqrt((coefficients**2).sum())),
    )


def fit_weighting(stored: Sequence[PowerProfile], weighting: Weighting, time: float) -> Fit:
    """The best approximation at step `time` of an average that weighs steps by `weighting`, by multiples of `stored`.

    ValueError as for `fit`, and where the weights are no numbers of 0 or more, of which one is above 0.
    """
    _require_past(stored, time)
    s = (np.arange(_FINE) + 0.5) / _FINE * time
    density = _density(weighting, s, time)
    gram, target = inner(stored, stored), np.array([_mean_of(density, profile, time) for profile in stored])
    own = float((density**2).mean()) * time
    coefficients = _solve(gram, target)
    square = own - 2 * coefficients @ target + coefficients @ gram @ coefficients
    reached = sum(c * _integral(profile, s) for c, profile in zip(coefficients, stored, strict=True))
    whole = np.cumsum(density) / _FINE * time
    return Fit(
        coefficients,
        float(np.sqrt(max(0.0, square) / own)),
        float(np.sqrt(((reached - whole) ** 2).sum() / (whole**2).sum())),
        float(np.sqrt((coefficients**2).sum())),
    )


def _require_past(stored: Sequence[PowerProfile], time: float) -> None:
    if not stored:
        raise ValueError("there are no snapshots to reconstruct from")
    if any(profile.time > time or profile.time <= 0 for profile in stored):
        raise ValueError("a snapshot can only stand for a time after its own")


def _density(weighting: Weighting, s: Vector, time: float) -> Vector:
    """(n,) weights at evenly spread steps, with an integral of 1 over the run."""
    weights = np.asarray(weighting(s, time), np.float64)
    if weights.shape != s.shape or not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("a weighting gives each step a number of 0 or more, and one above 0")
    return np.asarray(weights / (weights.mean() * time))


def _mean_of(density: Vector, profile: PowerProfile, time: float) -> float:
    """The integral of a density times a stored profile: its mean over steps drawn by that profile."""
    drawn = profile.time * ((np.arange(_FINE) + 0.5) / _FINE) ** (1 / (profile.gamma + 1))
    places = np.minimum((drawn / time * _FINE).astype(np.int64), _FINE - 1)
    return float(density[places].mean())


def _solve(gram: Vector, target: Vector) -> Vector:
    """Least squares under the condition that the coefficients add up to 1, by its Lagrange multiplier."""
    scale = 1 / np.sqrt(np.diag(gram))
    n = len(target)
    system = np.zeros((n + 1, n + 1))
    system[:n, :n] = gram * scale[:, None] * scale
    system[:n, n] = system[n, :n] = scale / scale.max()
    right = np.append(target * scale, 1 / scale.max())
    unit = np.linalg.norm(right[:n])
    right[:n] /= unit
    right[n] /= unit
    solution, *_ = np.linalg.lstsq(system, right, rcond=None)
    coefficients: Vector = solution[:n] * unit * scale
    return coefficients / coefficients.sum()


def _profile_error(coefficients: Vector, stored: Sequence[PowerProfile], wanted: PowerProfile) -> float:
    profiles, together = [*stored, wanted], np.append(coefficients, -1.0)
    square = together @ inner(profiles, profiles) @ together
    return float(np.sqrt(max(0.0, square) / inner([wanted], [wanted])[0, 0]))


def _weight_error(coefficients: Vector, stored: Sequence[PowerProfile], wanted: PowerProfile) -> float:
    """A random walk's average is off by the integral of the squared difference of the profiles' integrals."""
    s = (np.arange(_POINTS) + 0.5) / _POINTS * wanted.time
    reached = sum(c * _integral(profile, s) for c, profile in zip(coefficients, stored, strict=True))
    whole = _integral(wanted, s)
    return float(np.sqrt(((reached - whole) ** 2).sum() / (whole**2).sum()))


def _integral(profile: PowerProfile, s: Vector) -> Vector:
    result: Vector = np.minimum(s / profile.time, 1.0) ** (profile.gamma + 1)
    return result


def _columns(profiles: Sequence[PowerProfile]) -> tuple[Vector, Vector]:
    gammas = np.array([profile.gamma for profile in profiles], dtype=np.float64)
    return gammas, np.array([profile.time for profile in profiles], dtype=np.float64)
