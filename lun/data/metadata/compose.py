"""From the tags and the text of a picture to its caption, drawn anew at each access."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ldm.diffusion.draws import Draws

WHOLE = "||"
"""Stands at both ends of every tag while replacements are made, so that `||tag||` means a whole tag."""

PLACE = "[trigger]"
"""Stands in a text where the trigger words are to be."""

TAG_RULES = frozenset(
    {
        "split_tags",
        "non_caption_tags",
        "non_caption_tag_prefixes",
        "tag_order",
        "caption_sorter",
        "shuffle_tag_p",
        "keep_tags",
        "keep_separator",
        "tag_dropout_p",
        "tag_dropout",
        "prefix_dropout",
        "tag_warmup_steps",
        "replacements",
        "tag_separator",
        "final_tag_separator",
        "score_tags",
        "tag_bonus_scores",
        "blacklist_tags",
        "require_tags",
        "custom_filter",
    }
)
"""Settings that speak of tags: with one of them, captions that are text are taken as lists of tags."""


class Composer:
    """Makes captions by the rules of `params` (see `lun.data.metadata.params.CaptionParams`).

    Every random choice has a purpose of its own, so that one rule more or less leaves the draws of the others alone.
    """

    def __init__(self, params: Mapping[str, Any], sorts: bool) -> None:
        """`sorts`: whether tags are sorted where `tag_order` does not say."""
        self.skip = bool(params.get("skip_caption"))
        self.words = params.get("words")
        self.text_p = params.get("text_p", 0.5)
        self.unwanted = frozenset(params.get("non_caption_tags", ()))
        self.unwanted_prefixes = tuple(params.get("non_caption_tag_prefixes", ()))
        sorter: Callable[[str], Any] | None = params.get("caption_sorter")
        self.sorter = sorter
        self.sorts = sorter is not None or params.get("tag_order", "sorted" if sorts else "as_written") == "sorted"
        self.shuffle_p = params.get("shuffle_tag_p", 0.0)
        self.keep = params.get("keep_tags", 0)
        self.keep_separator = params.get("keep_separator")
        self.dropout_p = params.get("tag_dropout_p", 0.0)
        self.dropout = dict(params.get("tag_dropout", {}))
        self.prefix_dropout = dict(params.get("prefix_dropout", {}))
        self.warmup_steps = params.get("tag_warmup_steps", 0)
        self.warmup_min = params.get("tag_warmup_min", 1)
        self.drops = bool(self.dropout_p or self.dropout or self.prefix_dropout)
        self.replacements = list(params.get("replacements", {}).items())
        self.separator = params.get("tag_separator", ", ")
        self.wildcards = bool(params.get("wildcards"))
        self.final = bool(params.get("final_tag_separator"))
        self.prefix = params.get("prefix", "")
        self.suffix = params.get("suffix", "")
        self.trigger: str = params.get("trigger", "")
        self.has_trigger = re.compile(rf"(?<!\w){re.escape(self.trigger)}(?!\w)").search if self.trigger else None

    @property
    def draws(self) -> bool:
        """Whether a caption may come out differently at another access, for the same line of text."""
        return not self.skip and bool(
            self.drops or self.shuffle_p or self.wildcards or self.warmup_steps or self.words == "either"
        )

    @property
    def always_draws(self) -> bool:
        """Whether hardly any access gives the caption that comes out without draws."""
        return not self.skip and bool(self.drops or self.wildcards or self.shuffle_p >= 1)

    def __call__(self, tags: Sequence[str], text: str, draws: Draws | None = None) -> str:
        """The caption of a picture; without `draws` nothing is left to chance: no shuffle, no dropout."""
        if self.skip:
            return ""
        words = self._chosen(bool(tags), bool(text), draws)
        parts = {"tags": lambda: self.of_tags(tags, draws), "text": lambda: text}
        texts = [part for part in (parts[word]() for word in words.split("+")) if part]
        return self.framed(self.separator.join(texts))

    def framed(self, text: str) -> str:
        """`text` with what stands around every caption, and the trigger words in it."""
        if self.has_trigger:
            text = text.replace(PLACE, self.trigger)
            if not self.has_trigger(text):
                text = self.separator.join(filter(None, (self.trigger, text)))
        return self.prefix + text + self.suffix

    def _chosen(self, has_tags: bool, has_text: bool, draws: Draws | None) -> str:
        """What the caption is made of: what was asked for, as far as the picture has it."""
        if not (has_tags and has_text):
            return "tags" if has_tags else "text"
        if self.words == "either":
            return "text" if _drawn(draws, "caption/words", self.text_p) else "tags"
        return self.words or "tags"

    def of_tags(self, tags: Sequence[str], draws: Draws | None = None) -> str:
        """Tags chosen, ordered, warmed up, dropped, shuffled, replaced and joined."""
        head, free, tail = self._parts([tag for tag in tags if self._wanted(tag)])
        if draws is not None and draws.step is not None:
            free = self.warmed_up(free, draws.step)
        if self.drops and draws is not None:
            free = self._left(free, draws)
        if _drawn(draws, "caption/shuffle", self.shuffle_p):
            assert draws is not None
            order = torch.randperm(len(free), generator=draws("caption/order"))
            free = [free[place] for place in order.tolist()]
        return self._joined([*head, *free, *tail])

    def warmed_up(self, tags: list[str], step: int) -> list[str]:
        """The first of `tags`: `tag_warmup_min` at the first step, all from `tag_warmup_steps` on."""
        if step >= self.warmup_steps or len(tags) <= self.warmup_min:
            return tags
        return tags[: self.warmup_min + step * (len(tags) - self.warmup_min) // self.warmup_steps]

    def _wanted(self, tag: str) -> bool:
        goes_first = bool(self.trigger) and tag in (PLACE, self.trigger)
        return not goes_first and tag not in self.unwanted and not tag.startswith(self.unwanted_prefixes)

    def _parts(self, tags: list[str]) -> tuple[list[str], list[str], list[str]]:
        """What stays at the beginning, what may move and be dropped, what stays at the end."""
        if self.keep_separator in tags:
            at = tags.index(self.keep_separator)
            head, rest = tags[:at], tags[at + 1 :]
            at = rest.index(self.keep_separator) if self.keep_separator in rest else len(rest)
            return head, self._ordered(rest[:at]), rest[at + 1 :]
        ordered = self._ordered(tags)
        return ordered[: self.keep], ordered[self.keep :], []

    def _ordered(self, tags: list[str]) -> list[str]:
        return sorted(tags, key=self.sorter) if self.sorts else tags

    def _left(self, tags: list[str], draws: Draws) -> list[str]:
        numbers = torch.rand(len(tags), generator=draws("caption/dropout")).tolist()
        return [tag for tag, number in zip(tags, numbers, strict=True) if number >= self._chance(tag)]

    def _chance(self, tag: str) -> float:
        """Of a tag to be dropped: its own, else that of its longest prefix, else that of all."""
        if tag in self.dropout:
            return float(self.dropout[tag])
        fitting = [prefix for prefix in self.prefix_dropout if tag.startswith(prefix)]
        return float(self.prefix_dropout[max(fitting, key=len)] if fitting else self.dropout_p)

    def _joined(self, tags: list[str]) -> str:
        if self.replacements and tags:
            whole = WHOLE + WHOLE.join(tags) + WHOLE
            for old, new in self.replacements:
                whole = whole.replace(old, new)
            tags = [tag for tag in whole.split(WHOLE) if tag]
        return self.separator.join(tags) + (self.separator if self.final and tags else "")


def _drawn(draws: Draws | None, purpose: str, chance: float) -> bool:
    if draws is None or not chance:
        return False
    return torch.rand((), generator=draws(purpose)).item() < chance


def one_of(lines: Sequence[str], draws: Draws | None) -> str:
    """One of several captions; the first without `draws`."""
    if len(lines) < 2 or draws is None:
        return lines[0] if lines else ""
    return lines[int(torch.randint(len(lines), (), generator=draws("caption/line")))]


def split_tags(text: str, separator: str, keep_separator: str | None = None) -> list[str]:
    """The tags of a caption; `keep_separator` becomes an entry of its own wherever it stands."""
    parts = text.split(keep_separator) if keep_separator else [text]
    tags: list[str] = []
    for number, part in enumerate(parts):
        if number and keep_separator:
            tags.append(keep_separator)
        tags += [tag for tag in (one.strip() for one in part.split(separator or None)) if tag]
    return tags
