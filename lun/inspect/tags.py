"""How often tags occur, and which of them occur together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lun.data.metadata.compose import split_tags
from lun.data.metadata.tag_column import TagColumn

TOGETHER = 16
_COMMAS_OF_A_LIST = 2


@dataclass(frozen=True)
class Together:
    """`shares[i][j]`: of the pictures with tag i, the share that has tag j too."""

    tags: list[str]
    shares: list[list[float]]


def tagged(tags: TagColumn | None, captions: Sequence[str]) -> TagColumn:
    """The tags of descriptions; where there are none, the parts of `captions` if most are lists with commas."""
    if tags is not None:
        return tags
    if not captions or np.median([text.count(",") for text in captions]) < _COMMAS_OF_A_LIST:
        return TagColumn.of([])
    return TagColumn.of(split_tags(text, ",") for text in captions)


def together(tags: TagColumn, counts: Counter[str]) -> Together | None:
    """Of the most frequent tags that do not stand on every picture; None where there are fewer than two."""
    n = len(tags.rows)
    chosen = [tag for tag, count in counts.most_common() if count < n][:TOGETHER]
    if len(chosen) < 2:
        return None
    has = np.zeros((len(chosen), n), np.float32)
    of_row = np.repeat(np.arange(n), tags.rows.lengths)
    for number, tag in enumerate(chosen):
        has[number, of_row[tags.rows.values == tags.words.index(tag)]] = 1
    both = has @ has.T
    shares = both / np.diag(both)[:, None]
    return Together(chosen, [[round(float(share), 4) for share in row] for row in shares])
