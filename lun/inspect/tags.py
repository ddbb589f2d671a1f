"""How often tags occur, and which of them occur together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lun.data.local import Local
from lun.data.metadata.columns import Ragged
from lun.data.metadata.compose import split_tags

TOGETHER = 16
_COMMAS_OF_A_LIST = 2


@dataclass(frozen=True)
class Together:
    """`shares[i][j]`: of the pictures with tag i, the share that has tag j too."""

    tags: list[str]
    shares: list[list[float]]


@dataclass(frozen=True)
class Tagged:
    """Which of `words` stand on each of the pictures, or of as many as were looked at."""

    words: list[str]
    rows: Ragged

    def counts(self) -> Counter[str]:
        """On how many of the pictures each tag stands."""
        counts = np.bincount(self.rows.values.astype(np.int64), minlength=len(self.words)).tolist()
        return Counter({word: count for word, count in zip(self.words, counts, strict=False) if count})


def tagged(data: Local, captions: Sequence[str]) -> Tagged:
    """The tags of descriptions; where there are none, the parts of `captions` if most are lists with commas."""
    if len(data.table.tags.values):
        return Tagged(data.table.words, data.table.tags.take(data.rows))
    if not captions or np.median([text.count(",") for text in captions]) < _COMMAS_OF_A_LIST:
        return Tagged([], Ragged.of(np.zeros(0, np.int32), []))
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(tag, len(numbers)) for tag in dict.fromkeys(split_tags(text, ","))] for text in captions
    ]
    flat = np.array([number for row in rows for number in row], np.int32)
    return Tagged(list(numbers), Ragged.of(flat, [len(row) for row in rows]))


def together(tags: Tagged, counts: Counter[str]) -> Together | None:
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
