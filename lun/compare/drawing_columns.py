"""Drawing a comparison: each model is opened once, for the cells that are missing, and shown as it grows."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.compare.cells import Cells, is_drawn, rows_of
from lun.compare.compared_columns import Column, Opening
from lun.compare.open_column import open_column
from lun.compare.shown_comparison import ShownComparison, show
from lun.previews.prompt_grammar import Prompt
from lun.sample.arguments import text_encoders
from lun.sample.drawing import place
from lun.sample.drawn_files import drawn_files
from lun.sample.opened_model import SampledModel
from lun.sample.pictures import list_pictures

log = logging.getLogger(__name__)


class DrawnComparison:
    """Columns of models, rows of prompts, and a folder of cells.

    shared   what a run says of its own pictures, by which all columns are drawn where the command line says nothing
    """

    def __init__(
        self,
        folder: Path,
        columns: Sequence[Column],
        prompts: Sequence[Prompt],
        asked: argparse.Namespace,
        shared: Mapping[str, Any],
        words: Sequence[str],
    ) -> None:
        self.folder, self.columns, self.prompts = folder, list(columns), prompts
        self.asked, self.shared, self.words = asked, shared, words
        self.rows = rows_of(prompts, asked.count, asked.seed)
        self.cells = Cells(folder, asked, shared)
        self.left_out: list[str] = []

    def draw(self) -> None:
        """Draw what is missing. Raises `Fault` for what cannot be drawn; damaged checkpoints of a run are left out."""
        self.cells.folder.mkdir(parents=True, exist_ok=True)
        for opening, of_it in groupby(list(self.columns), key=lambda column: column.opening):
            columns = list(of_it)
            missing = {column: self._missing(column) for column in columns}
            if any(missing.values()) and self._drawn(opening, missing):
                self.show()
        self.show()

    def show(self) -> None:
        """Write the sheet, the page and the JSON of what is there."""
        show(ShownComparison(self.folder, self.columns, self.rows, self.cells, self.left_out, self.words))

    def _missing(self, column: Column) -> list[int]:
        return [number for number, row in enumerate(self.rows) if not is_drawn(self.cells.path(column, row))]

    def _drawn(self, opening: Opening, missing: Mapping[Column, Sequence[int]]) -> bool:
        """Whether the missing cells of one model are there now."""
        try:
            opened = open_column(opening, text_encoders(self.asked.text_encoder), self.asked.tokenizer)
        except Fault as fault:
            if not (opening.source.listed and fault.id == "MOD02"):
                raise
            log.warning("left out: %s: %s", fault.what, fault.why)
            self.left_out.append(f"{fault.what}: {fault.why}")
            self.columns = [column for column in self.columns if column.opening.source != opening.source]
            return True
        place(opened.model, self.asked.device, self.asked.dtype)
        for column, numbers in missing.items():
            self._draw_column(opened, column, numbers)
        return True

    def _draw_column(self, opened: SampledModel, column: Column, numbers: Sequence[int]) -> None:
        options = vars(self.asked) | {"guidance": column.guidance}
        pictures = list_pictures(self.prompts, argparse.Namespace(**options), self.shared, opened.model)
        wanted = [(pictures[number], self.cells.path(column, self.rows[number])) for number in numbers]
        for _ in drawn_files(opened, wanted, self.asked.batch, self.asked.dtype):
            log.info("drew     %s", ", ".join(part for part in described(column) if part))


def described(column: Column) -> Iterator[str]:
    """What a log says a column is."""
    opening = column.opening
    yield opening.source.given
    yield opening.weights.label
    yield str(opening.adapter or "")
    yield "" if column.guidance is None else f"guidance {column.guidance:g}"
