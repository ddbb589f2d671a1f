"""How many pictures each filter removed, and what is left of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lun.data.metadata.filters import Filter
from lun.data.metadata.picture_table import Table


@dataclass(frozen=True)
class FilterStep:
    """One filter's part: `count` pictures removed, the first of them as an example."""

    name: str
    words: str
    count: int
    first: str


@dataclass(frozen=True)
class Waterfall:
    """What happened to each of `total` rows: `removed_by` (n,) is the number of a step, -1 for rows that are left."""

    total: int
    steps: tuple[FilterStep, ...]
    removed_by: NDArray[np.int16]

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows that are left."""
        return np.flatnonzero(self.removed_by < 0)

    @property
    def left(self) -> int:
        return int((self.removed_by < 0).sum())

    @property
    def worst(self) -> FilterStep | None:
        """The step that removed the most, None where none removed any."""
        return max((step for step in self.steps if step.count), key=lambda step: step.count, default=None)

    def short(self) -> str:
        """`41,907 of 48,211: -37 unreadable descriptions, -58 image missing (the most)`"""
        removing = [step for step in self.steps if step.count]
        most = self.worst if len(removing) > 1 else None
        parts = [f"-{step.count:,} {step.words}{' (the most)' * (step is most)}" for step in removing]
        return f"{self.left:,} of {self.total:,}" + (": " + ", ".join(parts) if parts else "")

    def lines(self) -> list[str]:
        """The full text, a line for each step that removed any, counts one below the other."""
        width = len(f"{self.total:,}")
        worst = self.worst
        lines = [f"  {self.total:>{width},}  in the folder"]
        for step in self.steps:
            if step.count:
                example = f"  (first: {step.first})" if step.name in _BROKEN and step.first else ""
                mark = "  <- removed the most" if step is worst else ""
                lines.append(f"- {step.count:>{width},}  {step.words}{example}{mark}")
        return [*lines, f"= {self.left:>{width},}  usable"]


_BROKEN = (
    *("unreadable", "no_path", "outside", "embedded", "repeats", "extension"),
    *("missing", "leaves", "special", "unreadable_images"),
)
"""Steps that are about a broken file rather than a choice, where a name helps."""


def run(table: Table, filters: Sequence[Filter]) -> Waterfall:
    """Ask one filter after the other about the rows that are left."""
    removed_by = np.full(len(table), -1, np.int16)
    steps = []
    for number, one in enumerate(filters):
        left = removed_by < 0
        gone = left & ~one.keep(table, left)
        removed_by[gone] = number
        first = _named(table, int(np.argmax(gone))) if gone.any() else ""
        steps.append(FilterStep(one.name, one.words, int(gone.sum()), first))
    return Waterfall(len(table), tuple(steps), removed_by)


def _named(table: Table, row: int) -> str:
    """The picture of a row, or where it should have been named."""
    line = f":{table.line[row]}" if table.line[row] else ""
    return table.path[row] or table.source[row] + line
