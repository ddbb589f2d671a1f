"""Pictures that a run memorises: their losses fall, while the loss of those held out has begun to rise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

RISEN = 1.01
"""How far the loss held out has to lie above its lowest, so that noise alone is not taken for a rise."""
FALLEN = 0.9
"""What is left at most of a picture's loss since then."""
LOOKS = 4
"""Points of a course that are averaged on either side."""

Trace = Sequence[Sequence[float]]
"""(step, loss), in the order of steps."""


@dataclass(frozen=True)
class HeldOutRise:
    """Since `step` the mean loss of pictures held out has risen from `lowest` to `now`."""

    step: int
    lowest: float
    now: float


def held_out_rise(traces: Sequence[Trace]) -> HeldOutRise | None:
    """Since when the loss held out rises; None where it does not. Pictures held out are looked at together."""
    losses: dict[int, list[float]] = {}
    for trace in traces:
        for step, loss in _sound(trace):
            losses.setdefault(int(step), []).append(loss)
    most = max(map(len, losses.values()), default=0)
    means = {step: fmean(some) for step, some in sorted(losses.items()) if len(some) == most}
    if not means:
        return None
    best, last = min(means, key=lambda step: means[step]), max(means)
    if means[last] <= RISEN * means[best]:
        return None
    return HeldOutRise(best, means[best], means[last])


def fallen_since(traces: Mapping[str, Trace], step: int) -> dict[str, float]:
    """Of training pictures by name, what is left of the loss since `step`, the least first; those alone that fell."""
    left = {name: share for name, trace in traces.items() if (share := _left(trace, step)) is not None}
    return {name: left[name] for name in sorted(left, key=lambda one: left[one]) if left[name] <= FALLEN}


def _left(trace: Trace, step: int) -> float | None:
    """The mean of the last looks over that of the last ones up to `step`, of logarithms; None for fewer than two."""
    points = [point for point in _sound(trace) if point[1] > 0]
    before = [math.log(loss) for at, loss in points if at <= step][-LOOKS:]
    after = [math.log(loss) for at, loss in points if at > step][-LOOKS:]
    if min(len(before), len(after)) < 2:
        return None
    return math.exp(fmean(after) - fmean(before))


def _sound(trace: Trace) -> list[tuple[float, float]]:
    return [(point[0], point[1]) for point in trace if len(point) == 2 and all(map(math.isfinite, point))]
