"""The captions of a folder's pictures: what is written of each, and what the rules make of it at an access."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ldm.diffusion.draws import Draws
from lun.data.index.selection import Selection
from lun.data.metadata.caption_files import CaptionReader
from lun.data.metadata.compose import Composer, one_of, split_tags
from lun.data.metadata.wildcards import with_choices


class SelectedCaptions:
    """Captions by the row of a `selection`'s table.

    rules      those of `metadata_params` and `captions`
    described  whether descriptions are what was asked for
    default    text for pictures without a caption
    """

    def __init__(self, selection: Selection, rules: Mapping[str, Any], described: bool, default: str) -> None:
        self.root: Path = selection.root
        self.table = selection.table
        self.rules = rules
        self.default = default
        self.from_metadata = selection.contents.paths_from_metadata
        self.tags_from_text = selection.tags_from_text
        self.reads_files = not self.from_metadata and not described
        self.read = CaptionReader(several=bool(rules.get("several_captions")))
        self.compose = Composer(rules, sorts=not selection.tags_from_text)

    def made(self, row: int, draws: Draws | None) -> str:
        """The caption of a row, made anew; without `draws` nothing is left to chance."""
        return self._of(row, one_of(self._lines(row), draws), draws)

    def settled(self, row: int) -> list[str]:
        """Those that do not change from access to access; none where every access drops or shuffles tags."""
        if self.compose.always_draws:
            return []
        return list(dict.fromkeys(self._of(row, line, None) for line in self._lines(row)))

    def written(self, row: int) -> tuple[str, list[str]]:
        """(text, tags) as the files have them, before any rule."""
        tags = [] if self.tags_from_text else self.table.tags_of(row)
        return self._text(row).split("\n")[0], tags[: len(tags) - len(self._score_tag(row))]

    def _lines(self, row: int) -> list[str]:
        """The captions of a row."""
        lines, separator = self._text(row).split("\n"), self.rules.get("caption_separator")
        parts = [part.strip() for line in lines for part in line.split(separator)] if separator else lines
        return [part for part in parts if part] or [""]

    def _of(self, row: int, line: str, draws: Draws | None) -> str:
        if self.compose.wildcards:
            line = with_choices(line, draws)
        if not self.tags_from_text or self.rules.get("words") == "text":
            return self.compose(self.table.tags_of(row), line, draws)
        tags = split_tags(line, self.rules.get("split_tags", ","), self.rules.get("keep_separator"))
        return self.compose([*tags, *self._score_tag(row)], "", draws)

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
