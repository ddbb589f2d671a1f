"""The captions of a folder's pictures: what is written of each, and what the rules make of it at an access."""

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.modules.encoders.captions import FURTHER
from lun.data.index.listing import extension, leads_out
from lun.data.index.selection import Selection
from lun.data.metadata.caption_files import CaptionReader
from lun.data.metadata.description import FURTHER_KEYS
from lun.data.metadata.made_captions import LOOKED_AT, CaptionMaker, WrittenText


class SelectedCaptions:
    """Captions by the row of a `selection`'s table.

    rules      those of `metadata_params` and `captions`
    described  whether descriptions are what was asked for
    default    text for pictures without a caption
    follow     whether links lead to captions outside of the folder
    """

    def __init__(
        self, selection: Selection, rules: Mapping[str, Any], described: bool, default: str, follow: bool = False
    ) -> None:
        self.endings: Sequence[str] = rules.get("files") or ()
        self.real_root = None if follow else os.path.realpath(selection.root)
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
        """{`caption_2`, `caption_3`: the caption for the second, the third text encoder}, framed as every caption."""
        return {key: self.maker.further(line) for key, line in self._written_further(row).items()}

    def _written_further(self, row: int) -> dict[str, str]:
        lines = self._further_files(row) if self.reads_files else self.table.further[row].split("\n")
        return {key: line for key, line in zip(FURTHER_KEYS, lines, strict=False) if line}

    def _further_files(self, row: int) -> list[str]:
        """Those in `NAME.txt2` and `NAME.txt3` beside the caption's file, or the picture where that has none."""
        file = self.root / (self.table.source[row] or self.table.path[row])
        found = [self._beside(file, f"txt{number}") for number in FURTHER]
        return [self.read(beside) if beside else "" for beside in found]

    def _beside(self, file: Path, ending: str) -> Path | None:
        """The file of the same name with another ending, where there is one that may be read."""
        beside = file if extension(file.name) == ending else file.with_suffix(f".{ending}")
        leaves = self.real_root is not None and beside.is_symlink() and leads_out(beside, self.real_root)
        return beside if beside.is_file() and not leaves else None

    def _files(self, source: str) -> list[Path]:
        """The files that a picture's captions lie in."""
        found = [self._beside(self.root / source, ending) for ending in self.endings]
        return [file for file in found if file] or [self.root / source]

    def require_files(self, rows: NDArray[np.int64]) -> None:
        """Raise `Fault` CFG08 for endings of caption files that nothing reads, DAT04 for one that no picture has."""
        if self.endings and not self.reads_files:
            what, why = f"captions.files has no effect on {self.root}", "it has descriptions, which hold the captions"
            raise Fault("CFG08", what, where="captions.files", why=why, fix="layout: sidecar, or ~captions.files")
        missing = set(self.endings)
        for source in self.table.source.at(rows) if missing else ():
            missing -= {extension(file.name) for file in self._files(source)} if source else set()
            if not missing:
                return
        if missing:
            ending = min(missing)
            fix = f"leave {ending} out of captions.files, or write such files"
            raise Fault("DAT04", f"no picture in {self.root} has a NAME.{ending}", where="captions.files", fix=fix)

    def count(self, row: int) -> int:
        """How many captions there are, one of which is drawn at each access."""
        return self.maker.count(self._written(row))

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
            texts = list(map(CaptionReader(several=True), self._files(source)))
            found["caption"] = texts[0] if len(texts) == 1 else texts
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
        return found | self._written_further(row)

    def _written(self, row: int) -> WrittenText:
        return WrittenText(self._text(row), self.table.tags_of(row), self._score_tag(row))

    def _text(self, row: int) -> str:
        """The captions of a row, one to a line; those with a file of their own are read from it at each call."""
        source = self.table.source[row]
        if self.reads_files and source:
            return "\n".join(filter(None, map(self.read, self._files(source))))
        is_empty_on_purpose = (source and not self.from_metadata) or len(self.table.tags[row])
        return self.table.text[row] or ("" if is_empty_on_purpose else self.default)

    def _score_tag(self, row: int) -> list[str]:
        tags = self.table.tags_of(row) if self.rules.get("score_tags") else []
        return tags[-1:] if tags and self.table.score[row] >= min(self.rules["score_tags"]) else []
