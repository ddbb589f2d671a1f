"""Means of groups of examples, and how they stand to what they were when the run began."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

ENOUGH = 32
"""Examples whose mean is worth comparing with."""


class GroupMeans:
    """Means by group, and the quotient of each and the mean of the group's first `ENOUGH` examples or more."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[float, int]] = {}

    def of(
        self, family: str, groups: Mapping[str, NDArray[np.bool_]], losses: NDArray[np.float64], enough: int = ENOUGH
    ) -> dict[str, float]:
        """{`PHASE/NAME/GROUP`: mean} and, once there is something to compare with, {`PHASE/NAME_rel/GROUP`: quotient}.

        family  `PHASE/NAME`
        groups  which of the losses (m,) are of each group; those without any are not logged
        enough  examples to compare with
        """
        means = {}
        for group, chosen in groups.items():
            own = losses[chosen]
            if not len(own):
                continue
            name, mean = metric(family, group), float(own.mean())
            means[name] = mean
            total, count = self._first.get(name, (0.0, 0))
            if count < enough and np.isfinite(mean):
                self._first[name] = (total + float(own.sum()), count + len(own))
            elif total:
                means[metric(family, group, "_rel")] = mean / (total / count)
        return means

    def state_dict(self) -> dict[str, Any]:
        return {"first": {name: list(entry) for name, entry in self._first.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        entries: Mapping[str, Sequence[float]] = state.get("first", {})
        self._first = {name: (float(total), int(count)) for name, (total, count) in entries.items()}


def metric(family: str, group: str, kind: str = "") -> str:
    """The name of a metric; of `val_ema/loss_by_snr` it is `val/loss_by_snr_ema/GROUP`, as others of averages."""
    phase, _, name = family.partition("/")
    phase, _, averaged = phase.partition("_")
    return f"{phase}/{name}{kind}{'_' + averaged if averaged else ''}/{group}"
