"""The captions of a folder's pictures: what is written of each, and what the rules make of it at an access."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.diffusion.draws import Draws
from ldm.modules.encoders.captions import FURTHER
from lun.data.index.selection import Selection
from lun.data.metadata.caption_files import CaptionReader
from lun.data.metadata.description import FURTHER_KEYS
from lun.data.metadata.made_captions import LOOKED_AT, CaptionMaker, WrittenText


class SelectedCaptions:
    """Captions by the row of a `selection`'s table.

    rules      those of `metadata_params` and `captions`
    described  whether descriptions are what was asked for
    default    text for pictures without a caption
    """

    def __init__(self, selection: Selection, rules: Mapping[str, Any], described: bool, default: str) -> None:
        self.root: Path = selection.root
        self.table = selection.table
        self.known = selection.contents.table
        self.rules = rules
        self.default = default
        self.from_metadata = selection.contents.paths_from_metadata
        self.in_files = selection.contents.layout in ("flat", "sidecar", "kohya")
        self.reads_files = not self.from_metadata and not described
        self.read = CaptionReader(several=bool(rules.get("several_captions")))
        self.maker = CaptionMaker(rules, selection.tags_from_text)

    def made(self, row: int, draws: Draws | None) -> str:
        """The caption of a row, made anew; without `draws` nothing is left to chance."""
        return self.maker.made(self._written(row), draws)

    def settled(self, row: int) -> list[str]:
        """Those that do not change from access to access; none where every access drops or shuffles tags."""
        return self.maker.settled(self._written(row))

    def further(self, row: int) -> dict[str, str]:
        """{`caption_2`, `caption_3`: the caption for the second, the third text encoder}, as they are written."""
        lines = self._further_files(row) if self.reads_files else self.table.further[row].split("\n")
        return {key: line for key, line in zip(FURTHER_KEYS, lines, strict=False) if line}

    def _further_files(self, row: int) -> list[str]:
        """Those in `NAME.txt2` and `NAME.txt3` beside the caption's file, or the picture where that has none."""
        beside = self.root / (self.table.source[row] or self.table.path[row])
        files = [beside.with_suffix(f".txt{number}") for number in FURTHER]
        return [self.read(file) if file.is_file() else "" for file in files]

    def written(self, row: int) -> tuple[str, list[str]]:
        """(text, tags) as the files have them, before any rule."""
        tags = [] if self.maker.tags_from_text else self.table.tags_of(row)
        return self._text(row).split("\n")[0], tags[: len(tags) - len(self._score_tag(row))]

    def require_tags(self, rows: NDArray[np.int64]) -> None:
        """Raise `Fault` CFG08 for rules of tags whose captions have none, judged by some of them."""
        if self.maker.compose.warmup_steps:
            some = rows[:: -(-len(rows) // LOOKED_AT) or 1].tolist()
            self.maker.require_tags((self._written(row) for row in some if self._is_readable(row)), str(self.root))

    def _is_readable(self, row: int) -> bool:
        source = self.table.source[row]
        return not (self.reads_files and source) or os.access(self.root / source, os.R_OK)

    def record(self, row: int) -> dict[str, Any]:
        """What the files say of a row, before any rule; what they do not say is left out."""
        found: dict[str, Any] = {}
        source, text = self.known.source[row], self.known.text[row]
        if self.reads_files and source:
            found["caption"] = CaptionReader(several=True)(self.root / source)
        elif text or (source and not self.from_metadata):
            found["caption"] = text
        if tags := self.known.tags_of(row):
            found["tags"] = tags
        if not math.isnan(score := float(self.known.score[row])):
            found["score"] = score
        if not math.isnan(date := float(self.known.date[row])):
            found["date"] = date
        if (rating := int(self.known.rating[row])) >= 0:
            found["rating"] = self.known.words[rating]
        return found | self.further(row)

    def _written(self, row: int) -> WrittenText:
        return WrittenText(self._text(row), self.table.tags_of(row), self._score_tag(row))

    def _text(self, row: int) -> str:
        """The captions of a row, one to a line; those with a file of their own are read from it at each call."""
        source = self.table.source[row]
        if self.reads_files and source:
            return self.read(self.root / source)
        is_empty_on_purpose = (source and not self.from_metadata) or len(self.table.tags[row])
        return self.table.text[row] or ("" if is_empty_on_purpose else self.default)

    def _score_tag(self, row: int) -> list[str]:
        tags = self.table.tags_of(row) if self.rules.get("score_tags") else []
        return tags[-1:] if tags and self.table.score[row] >= min(self.rules["score_tags"]) else []
