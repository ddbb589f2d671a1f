"""Captions of what is written of a picture, made anew at each access."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.metadata.caption_files import one_line
from lun.data.metadata.compose import Composer, one_of, split_tags
from lun.data.metadata.wildcards import with_choices

LOOKED_AT = 1000
"""Captions, spread over a set, by which it is judged whether it has tags."""


@dataclass(frozen=True)
class WrittenText:
    """What is written of one picture.

    text   its captions, one to a line
    tags   those of its description, else of its text; the tag of its score comes last
    score  that tag, where there is one
    """

    text: str
    tags: Sequence[str] = ()
    score: Sequence[str] = ()


class CaptionMaker:
    """Captions by the rules of `lun.data.metadata.params.CaptionParams`.

    tags_from_text  whether texts are lists of tags
    """

    def __init__(self, rules: Mapping[str, Any], tags_from_text: bool) -> None:
        self.rules = rules
        self.tags_from_text = tags_from_text
        self.compose = Composer(rules, sorts=not tags_from_text)

    def made(self, written: WrittenText, draws: Draws | None) -> str:
        """The caption, made anew; without `draws` nothing is left to chance."""
        return self._of(written, one_of(self._lines(written.text), draws), draws)

    def settled(self, written: WrittenText) -> list[str]:
        """Those that do not change from access to access; none where every access drops or shuffles tags."""
        if self.compose.always_draws:
            return []
        return list(dict.fromkeys(self._of(written, line, None) for line in self._lines(written.text)))

    def further(self, text: str) -> str:
        """A caption for one of several text encoders: as it is written, with what stands around every caption."""
        return "" if self.compose.skip else self.compose.framed(one_line(text))

    def count(self, written: WrittenText) -> int:
        """How many captions there are to choose from."""
        return len(self._lines(written.text))

    def tags_of_text(self, text: str) -> list[str]:
        """The tags that a text lists, all its lines together."""
        return [tag for line in text.split("\n") for tag in self._split(line)]

    def require_tags(self, written: Iterable[WrittenText], where: str) -> None:
        """Raise `Fault` CFG08 where tags are to be warmed up and no caption of those `written` has several."""
        if self.compose.warmup_steps and not any(len(self._tags(one)) > 1 for one in written):
            why = "its captions are no lists of tags: of those that were looked at, spread over all, none has two"
            fix = "split_tags: what stands between them, or ~tag_warmup_steps"
            raise Fault("CFG08", f"tag_warmup_steps has no effect on {where}", where=where, why=why, fix=fix)

    def _tags(self, written: WrittenText) -> Sequence[str]:
        if self.rules.get("words") == "text" or self.compose.skip:
            return []
        return self.tags_of_text(written.text) if self.tags_from_text else written.tags

    def _lines(self, text: str) -> list[str]:
        """The captions that are to choose from."""
        lines, separator = text.split("\n"), self.rules.get("caption_separator")
        parts = [part.strip() for line in lines for part in line.split(separator)] if separator else lines
        return [part for part in parts if part] or [""]

    def _of(self, written: WrittenText, line: str, draws: Draws | None) -> str:
        if self.compose.wildcards:
            line = with_choices(line, draws)
        if not self.tags_from_text or self.rules.get("words") == "text":
            return self.compose(written.tags, line, draws)
        return self.compose([*self._split(line), *written.score], "", draws)

    def _split(self, line: str) -> list[str]:
        return split_tags(line, self.rules.get("split_tags", ","), self.rules.get("keep_separator"))
