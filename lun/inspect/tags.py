"""How often tags occur, and which of them occur together."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from lun.data.local import Local

TOGETHER = 16


@dataclass(frozen=True)
class Together:
    """`shares[i][j]`: of the pictures with tag i, the share that has tag j too."""

    tags: list[str]
    shares: list[list[float]]


def tag_counts(data: Local) -> Counter[str]:
    """On how many of the pictures that are used each tag stands."""
    table = data.table
    used = table.tags.take(data.rows).values if len(table.tags.values) else np.zeros(0, np.int64)
    counts = np.bincount(used, minlength=len(table.words))
    return Counter({word: int(count) for word, count in zip(table.words, counts, strict=False) if count})


def together(data: Local, counts: Counter[str]) -> Together | None:
    """Of the most frequent tags that do not stand on every picture; None where there are fewer than two."""
    chosen = [tag for tag, count in counts.most_common() if count < len(data)][:TOGETHER]
    if len(chosen) < 2:
        return None
    rows = data.table.tags.take(data.rows)
    has = np.zeros((len(chosen), len(data)), np.float32)
    of_row = np.repeat(np.arange(len(data)), rows.lengths)
    for number, tag in enumerate(chosen):
        has[number, of_row[rows.values == data.table.numbers[tag]]] = 1
    both = has @ has.T
    shares = both / np.diag(both)[:, None]
    return Together(chosen, [[round(float(share), 4) for share in row] for row in shares])
