"""The tags of many examples in two arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from lun.data.metadata.columns import Ragged


@dataclass(frozen=True)
class TagColumn:
    """Which of `words` each example has: `rows` holds their numbers, one row an example."""

    words: Sequence[str]
    rows: Ragged

    @classmethod
    def of(cls, examples: Iterable[Iterable[str]]) -> TagColumn:
        """From the tags of each example; a tag that an example has twice counts once."""
        numbers: dict[str, int] = {}
        rows = [[numbers.setdefault(tag, len(numbers)) for tag in dict.fromkeys(tags)] for tags in examples]
        flat = np.array([number for row in rows for number in row], np.int32)
        return cls(list(numbers), Ragged.of(flat, [len(row) for row in rows]))

    def __len__(self) -> int:
        return len(self.rows)

    def counts(self) -> Counter[str]:
        """How many examples have each tag."""
        counts = np.bincount(self.rows.values.astype(np.int64), minlength=len(self.words))
        return Counter({self.words[number]: int(counts[number]) for number in np.flatnonzero(counts).tolist()})
