"""Columns of variable length in a few flat arrays: text and lists of tag numbers, without an object per example."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lun.data.metadata.table_builder import KEEPS_ODD_NAMES, encoded

Array = NDArray[Any]

_ROWS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Array
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> Array:
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,)"""
        return np.diff(self.offsets)

    @classmethod
    def of(cls, values: Array, lengths: Sequence[int] | Array) -> Ragged:
        """From all rows behind one another and the length of each."""
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(np.asarray(lengths, np.int64), out=offsets[1:])
        return cls(values, offsets)

    def take(self, rows: Array) -> Ragged:
        """The given rows, in that order."""
        parts = [self._values_of(rows[i : i + _ROWS_AT_ONCE]) for i in range(0, len(rows), _ROWS_AT_ONCE)]
        return Ragged.of(np.concatenate(parts) if parts else self.values[:0], self.lengths[rows])

    def _values_of(self, rows: Array) -> Array:
        lengths = self.lengths_of(rows)
        ends = np.cumsum(lengths)
        shift = np.repeat(self.offsets[rows] - ends + lengths, lengths)
        return self.values[shift + np.arange(ends[-1])]

    def lengths_of(self, rows: Array) -> NDArray[np.int64]:
        """(len(rows),)"""
        lengths: NDArray[np.int64] = self.offsets[rows + 1] - self.offsets[rows]
        return lengths

    def sums(self, per_value: Array) -> NDArray[np.float64]:
        """(n,): the sum over each row of what `per_value` gives for each of its values."""
        running = np.zeros(len(self.values) + 1)
        np.cumsum(per_value[self.values], out=running[1:])
        sums: NDArray[np.float64] = running[self.offsets[1:]] - running[self.offsets[:-1]]
        return sums

    def with_last(self, extra: Array) -> Ragged:
        """Every row with one more value at its end, where `extra` (n,) is not negative."""
        has = extra >= 0
        wider = Ragged.of(np.empty(len(self.values) + int(has.sum()), self.values.dtype), self.lengths + has)
        old = np.ones(len(wider.values), bool)
        old[wider.offsets[1:][has] - 1] = False
        wider.values[old] = self.values
        wider.values[~old] = extra[has]
        return wider


def joined(columns: Sequence[Ragged]) -> Ragged:
    """The rows of several columns one after the other."""
    return Ragged.of(
        np.concatenate([column.values for column in columns]), np.concatenate([column.lengths for column in columns])
    )


@dataclass(frozen=True)
class Strings:
    """A column of text: one block of UTF-8 bytes and where each row begins."""

    rows: Ragged

    @classmethod
    def of(cls, texts: Iterable[str]) -> Strings:
        return cls.of_encoded(*encoded(list(texts)))

    @classmethod
    def of_encoded(cls, whole: bytes, lengths: Sequence[int]) -> Strings:
        """From the bytes of all texts and the length of each in bytes."""
        return cls(Ragged.of(np.frombuffer(whole, np.uint8), lengths))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> str:
        return self.rows[row].tobytes().decode("utf-8", KEEPS_ODD_NAMES)

    def __iter__(self) -> Iterator[str]:
        whole = self.rows.values.tobytes()
        ends = self.rows.offsets.tolist()
        return (whole[a:b].decode("utf-8", KEEPS_ODD_NAMES) for a, b in pairwise(ends))

    def at(self, rows: Array) -> list[str]:
        """The texts of the given rows."""
        whole = self.rows.values.tobytes()
        starts, ends = self.rows.offsets[rows].tolist(), self.rows.offsets[rows + 1].tolist()
        return [whole[a:b].decode("utf-8", KEEPS_ODD_NAMES) for a, b in zip(starts, ends, strict=True)]

    def on_one_line(self) -> Strings:
        """The same texts with a space for each line break."""
        values = self.rows.values
        return Strings(Ragged(np.where(values == ord("\n"), np.uint8(ord(" ")), values), self.rows.offsets))

    @property
    def is_ascii(self) -> bool:
        """Whether no text holds more than ASCII."""
        return not len(self.rows.values) or int(self.rows.values.max()) < 128

    @property
    def empty(self) -> NDArray[np.bool_]:
        """(n,): which rows hold no text"""
        return self.rows.lengths == 0
