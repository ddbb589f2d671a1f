"""The captions of a packed set: what its records say, and what the rules make of it at an access."""

import math
from collections.abc import Mapping
from typing import Any

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.metadata.compose import TAG_RULES
from lun.data.metadata.description import FURTHER_KEYS
from lun.data.metadata.made_captions import CaptionMaker, WrittenText
from lun.data.metadata.params import CaptionParams, checked
from lun.data.metadata.scores import score_tag
from lun.data.packs.set_file import SetFacts


class PackedCaptionParams(CaptionParams, total=False):
    """How captions of a packed set are made."""

    score_tags: list[int | float] | None
    """adds the tag `scr800` for the highest of these that the score reaches"""


def caption_rules(captions: PackedCaptionParams | None) -> dict[str, Any]:
    """The settings that are given. Raises `Fault` CFG03 or CFG08."""
    rules = checked(captions, PackedCaptionParams, "captions")
    if "files" in rules:
        fix = "pack the folder with captions.files in its recipe: the set then holds the captions of all"
        raise Fault("CFG08", "captions.files has no effect on a packed set", where="captions.files", fix=fix)
    return rules


class PackedCaptions:
    """Captions of records, as a folder with the same files has them.

    rules   those of `captions`
    absent  text for pictures of which nothing is written; None: such a picture cannot be read
    """

    def __init__(self, facts: SetFacts, rules: Mapping[str, Any], absent: str | None) -> None:
        self.lines = facts.lines and not rules.get("several_captions")
        self.absent = absent
        self.rules = rules
        self.maker = CaptionMaker(rules, bool(TAG_RULES & rules.keys()) and (facts.lines or not facts.tags))

    def made(self, record: Mapping[str, Any], draws: Draws | None, where: str) -> str:
        """The caption, made anew. Raises `Fault` DAT04 where nothing is written and nothing takes its place."""
        return self.maker.made(self.written(record, where), draws)

    def settled(self, record: Mapping[str, Any], where: str) -> list[str]:
        return self.maker.settled(self.written(record, where))

    def written(self, record: Mapping[str, Any], where: str) -> WrittenText:
        """What is written of a picture, before any rule."""
        text, tags = self._text(record), [str(tag) for tag in record.get("tags") or ()]
        if self.maker.tags_from_text:
            tags = self.maker.tags_of_text(text or "")
        thresholds, score = self.rules.get("score_tags"), record.get("score")
        scored = score_tag(thresholds, math.nan if score is None else float(score)) if thresholds else []
        if text is None and not tags:
            text = self.absent
            if text is None and not self.rules.get("skip_caption"):
                fix = "default_caption: ..., or allow_empty_captions: true, in the params of the set"
                raise Fault("DAT04", f"{where} has no caption", where=where, why="none was packed with it", fix=fix)
        return WrittenText(text or "", [*tags, *scored], scored)

    def further(self, record: Mapping[str, Any]) -> dict[str, str]:
        """{`caption_2`, `caption_3`: the caption for the second, the third text encoder}, framed as every caption."""
        lines = {key: text for key in FURTHER_KEYS if isinstance(text := record.get(key), str) and text.strip()}
        return {key: self.maker.further(text) for key, text in lines.items()}

    def _text(self, record: Mapping[str, Any]) -> str | None:
        """One caption to a line, of one text or a list of them."""
        given = record.get("caption")
        texts = [text for text in (given if isinstance(given, list) else [given]) if isinstance(text, str)]
        return "\n".join(text.replace("\n", " ") if self.lines else text for text in texts) if texts else None
