"""What a person looks at: the sheet, a page that needs no other file, and JSON of what each cell is of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ldm.files.replacing import replace_text
from ldm.shell import quoted
from lun.compare.cells import Cells, ComparedRow, picture_at
from lun.compare.compared_columns import Column, labels, letters
from lun.pages.document import asset, data_url, document, fragment
from lun.previews.grid import font, shortened, write
from lun.previews.timeline import LETTERS, Row, timeline
from lun.run_dir.config_changes import differing_settings, flat_settings, readable_settings
from lun.run_dir.directory import RunDirectory

TILE = 224
LABEL = 200  # pixels
ABSENT = "—"
SIDES = (256, 192, 128, 96, 64)
ROOM = 3_500_000
"""Bytes of all pictures in a page."""
FEW_PIXELS = 64
"""A picture of at most so many pixels a side is kept to the pixel."""
SETTINGS = 300


@dataclass(frozen=True)
class ShownComparison:
    """A comparison as far as it is drawn; `words` are its command line."""

    folder: Path
    columns: Sequence[Column]
    rows: Sequence[ComparedRow]
    cells: Cells
    left_out: Sequence[str]
    words: Sequence[str]

    def paths(self, row: ComparedRow) -> list[Path]:
        """The cells of a row."""
        return [self.cells.path(column, row) for column in self.columns]

    @property
    def runs(self) -> list[RunDirectory]:
        """The runs whose checkpoints are compared, each once."""
        found = [column.opening.source.run for column in self.columns]
        return list({run.path: run for run in found if run}.values())


def show(shown: ShownComparison) -> None:
    """Write `sheet.png`, `compare.html` and `compare.json` into the folder, in place of those before."""
    pictures = [[picture_at(path) for path in shown.paths(row)] for row in shown.rows]
    write(_sheet(shown, pictures), shown.folder / "sheet.png")
    runs = [flat_settings(readable_settings(run.resolved_config) or {}) for run in shown.runs]
    differs = differing_settings(runs, ABSENT)
    facts = _facts(shown, differs)
    replace_text(shown.folder / "compare.json", json.dumps(facts, indent=1, ensure_ascii=False, default=str) + "\n")
    replace_text(shown.folder / "compare.html", _page(shown, pictures, differs))


def _sheet(shown: ShownComparison, pictures: Sequence[Sequence[Image.Image | None]]) -> Image.Image:
    heads = [", ".join(part for part in label if part) for label in labels(shown.columns)]
    face = font(LETTERS)
    rows = [
        Row(shortened(row.prompt.text, face, LABEL), tiles, note=f"seed {row.seed}", apart=False)
        for row, tiles in zip(shown.rows, pictures, strict=True)
    ]
    legend = ", ".join(f"{letter} {path.name}" for path, letter in letters(shown.columns).items())
    return timeline(rows, heads, legend, TILE)


def _facts(shown: ShownComparison, differs: Sequence[tuple[str, list[str]]]) -> dict[str, Any]:
    columns = []
    for column, label in zip(shown.columns, labels(shown.columns), strict=True):
        source = column.opening.source
        said = {"label": ", ".join(part for part in label if part), "source": source.given, "step": source.step}
        columns.append(said | {"guidance": column.guidance} | shown.cells.facts(column.opening))
    return {
        "command": list(shown.words),
        "columns": columns,
        "rows": [{"prompt": row.prompt.text, **row.prompt.settings, "seed": row.seed} for row in shown.rows],
        "cells": [[path.relative_to(shown.folder).as_posix() for path in shown.paths(row)] for row in shown.rows],
        "runs": [str(run.path) for run in shown.runs],
        "settings that differ": dict(differs),
        "left out": list(shown.left_out),
    }


def _page(
    shown: ShownComparison,
    pictures: Sequence[Sequence[Image.Image | None]],
    differs: Sequence[tuple[str, list[str]]],
) -> str:
    urls = _urls(pictures)
    files = [[path.relative_to(shown.folder).as_posix() for path in shown.paths(row)] for row in shown.rows]
    grid = [(row, list(zip(*cells, strict=True))) for row, *cells in zip(shown.rows, urls, files, strict=False)]
    left_out = list(shown.left_out)
    if len(grid) < len(shown.rows):
        left_out.append(f"{len(shown.rows) - len(grid):,} of {len(shown.rows):,} rows, which sheet.png and cells/ have")
    if len(differs) > SETTINGS:
        left_out.append(f"{len(differs) - SETTINGS:,} of {len(differs):,} settings that differ")
    body = fragment(
        "compare.html",
        labels=labels(shown.columns),
        grid=grid,
        runs=shown.runs,
        letters=letters(shown.columns),
        differs=differs[:SETTINGS],
        command=_command(shown.words),
        left_out=left_out,
    )
    return document(" · ".join(run.name for run in shown.runs) or "Comparison", body, asset("compare.css"))


def _command(words: Sequence[str]) -> str:
    """The command line to paste; its first word is the program with its Python."""
    return f"{words[0]} {quoted(*words[1:])}"


def _urls(pictures: Sequence[Sequence[Image.Image | None]]) -> list[list[str | None]]:
    """The pictures as data URLs, as large as they fit in a page; of too many the first rows."""
    found: list[list[str | None]] = []
    for side in SIDES:
        found = [[_url(picture, side) for picture in row] for row in pictures]
        if sum(len(url or "") for row in found for url in row) <= ROOM:
            return found
    room, kept = ROOM, []
    for row in found:
        room -= sum(len(url or "") for url in row)
        if room < 0:
            break
        kept.append(row)
    return kept


def _url(picture: Image.Image | None, side: int) -> str | None:
    if picture is None:
        return None
    if max(picture.size) <= FEW_PIXELS:
        return data_url(picture, "PNG")
    small = picture.copy()
    small.thumbnail((side, side))
    return data_url(small)
