"""`rejected.csv`: every picture that is not used, why, and which file says so."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ldm.errors import Fault
from ldm.plain import parse_json
from lun.data.images.decode import header_size
from lun.data.index.dir_handle import open_file
from lun.data.index.selection import Selection
from lun.data.rejects import no_formula

Row = tuple[str, str, str]
"""(path, reason, detail)"""


def unused_rows(unread: Sequence[tuple[str, str]]) -> list[Row]:
    """What lies beside the pictures without a use."""
    return [(path, reason, "") for path, reason in unread]


def rejected_rows(selection: Selection) -> list[Row]:
    """In the order of the steps that removed them."""
    rejected: list[Row] = []
    table = selection.table
    for number, step in enumerate(selection.waterfall.steps):
        for row in np.flatnonzero(selection.waterfall.removed_by == number).tolist():
            rejected.append((table.path[row], step.words, _detail(selection, step.name, row)))
    return rejected


def _detail(selection: Selection, step: str, row: int) -> str:
    """What is wrong with a picture that cannot be read, else where it is described."""
    table = selection.table
    if step == "unreadable_images":
        try:
            header_size(selection.root / table.path[row])
        except Fault as fault:
            return fault.why
    source = table.source[row] + (f":{table.line[row]}" if table.line[row] else "")
    why = _no_json(selection.root / table.source[row]) if step == "unreadable" and not table.line[row] else ""
    return f"{source}: {why}" if why else source


def _no_json(path: Path) -> str:
    """Why a file that describes one picture is not read."""
    try:
        with open_file(path) as file:
            parse_json(file.read())
    except ValueError as error:
        return str(error)
    except OSError as error:
        return error.strerror or str(error)
    return "not a map of keys and values"


def write_rejected(path: Path, rows: Sequence[Row]) -> int:
    """Write `rows` and return how many they are."""
    with path.open("x", newline="", encoding="utf-8", errors="backslashreplace") as file:
        lines = csv.writer(file)
        lines.writerow(("path", "reason", "detail"))
        lines.writerows(map(no_formula, row) for row in rows)
    return len(rows)
