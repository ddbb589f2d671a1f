"""`rejected.csv`: every picture that is not used, why, and which file says so."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lun.data.selection import Selection

Row = tuple[str, str, str]
"""(path, reason, detail)"""


def rejected_rows(selection: Selection) -> list[Row]:
    """In the order of the steps that removed them."""
    found: list[Row] = []
    table = selection.table
    for number, step in enumerate(selection.waterfall.steps):
        for row in np.flatnonzero(selection.waterfall.removed_by == number).tolist():
            line = f":{table.line[row]}" if table.line[row] else ""
            found.append((table.path[row], step.words, table.source[row] + line))
    return found


def write_rejected(path: Path, selection: Selection, unreadable: Sequence[Row]) -> int:
    """Write all rows and return how many they are; `unreadable` pictures were found on opening them."""
    rows = [*rejected_rows(selection), *unreadable]
    with path.open("x", newline="", encoding="utf-8", errors="backslashreplace") as file:
        lines = csv.writer(file)
        lines.writerow(("path", "reason", "detail"))
        lines.writerows(rows)
    return len(rows)
