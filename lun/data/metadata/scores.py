"""Tags that give a picture's score."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from lun.data.metadata.columns import Strings
from lun.data.metadata.picture_table import Table


def with_score_tags(table: Table, thresholds: Sequence[float]) -> Table:
    """Each row with the tag `scr800` for the highest of `thresholds` that its score reaches, whatever their order."""
    steps = np.array(sorted(set(thresholds)))
    numbers, words = dict(table.numbers), list(table.words)
    tags = []
    for step in steps:
        tag = _name(step)
        if tag not in numbers:
            numbers[tag] = len(words)
            words.append(tag)
        tags.append(numbers[tag])
    reached = np.searchsorted(steps, table.score, side="right") - 1
    reached[np.isnan(table.score)] = -1
    extra = np.append(np.array(tags, np.int32), np.int32(-1))[reached]
    return dataclasses.replace(table, tags=table.tags.with_last(extra), vocabulary=Strings.of(words))


def score_tag(thresholds: Sequence[float], score: float) -> list[str]:
    """The tag of one picture, by the same law; none for a score below all, or one that is nan."""
    reached = [step for step in thresholds if score >= step]
    return [_name(max(reached))] if reached else []


def _name(step: float) -> str:
    return f"scr{step:g}" if step < 1e6 else f"scr{step:.0f}"
