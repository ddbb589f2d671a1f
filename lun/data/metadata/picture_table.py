"""The table of a data set: one row per picture, in columns, a few hundred bytes each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lun.data.metadata.columns import Ragged, Strings, joined
from lun.data.metadata.table_builder import SOUND, TEXTS, Packed

NUMBERS: dict[str, Any] = {
    "score": np.float64,
    "aspect": np.float32,
    "width": np.int32,
    "height": np.int32,
    "date": np.float64,
    "rating": np.int32,
    "repeats": np.int32,
    "weight": np.float32,
    "line": np.int32,
    "problem": np.uint8,
}
_UNKNOWN: dict[str, float] = {
    "score": np.nan,
    "aspect": np.nan,
    "width": 0,
    "height": 0,
    "date": np.nan,
    "rating": -1,
    "repeats": 1,
    "weight": 1.0,
    "line": 0,
    "problem": SOUND,
}


@dataclass(frozen=True)
class Table:
    """Everything known about n pictures before one is opened."""

    path: Strings
    """of the picture, relative to the root, with `/`"""
    source: Strings
    """of the file that describes it, the same way; empty: there is none"""
    text: Strings
    """captions, one to a line"""
    further: Strings
    """captions for the second and the third text encoder of a model, a line each; empty: there is none"""
    tags: Ragged
    """numbers into `vocabulary`"""
    vocabulary: Strings
    score: NDArray[np.float64]
    """nan: not known"""
    aspect: NDArray[np.float32]
    """width / height as the description says; nan: it does not"""
    width: NDArray[np.int32]
    """pixels as the description says; 0: it does not"""
    height: NDArray[np.int32]
    date: NDArray[np.float64]
    """seconds since 1970; nan: not known"""
    rating: NDArray[np.int32]
    """a number into `vocabulary`; -1: not known"""
    repeats: NDArray[np.int32]
    weight: NDArray[np.float32]
    line: NDArray[np.int32]
    """where in `source`, where one file describes many; 0: the whole file"""
    problem: NDArray[np.uint8]

    @classmethod
    def of(cls, rows: Packed) -> Table:
        """The columns of rows that were put together one by one."""
        numbers: dict[str, Any] = {}
        for name, dtype in NUMBERS.items():
            numbers[name] = np.full(len(rows.lengths), _UNKNOWN[name], dtype)
            if name in rows.given:
                given, values = rows.given[name]
                numbers[name][np.array(given, np.int64)] = np.array(values)
        texts: dict[str, Any] = {name: Strings.of_encoded(*rows.texts[name]) for name in TEXTS}
        tags = Ragged.of(np.array(rows.tags, np.int32), rows.lengths)
        return cls(**texts, tags=tags, vocabulary=Strings.of_encoded(*rows.vocabulary), **numbers)

    def __len__(self) -> int:
        return len(self.path)

    @cached_property
    def words(self) -> list[str]:
        """The vocabulary as text, by number."""
        return list(self.vocabulary)

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The number of each word of the vocabulary."""
        return {word: number for number, word in enumerate(self.words)}

    def tags_of(self, row: int) -> list[str]:
        """The tags of one picture as its description lists them."""
        words = self.words
        return [words[number] for number in self.tags[row].tolist()]

    def take(self, rows: NDArray[np.int64]) -> Table:
        """The given rows, in that order."""
        texts: dict[str, Any] = {name: Strings(getattr(self, name).rows.take(rows)) for name in TEXTS}
        numbers: dict[str, Any] = {name: getattr(self, name)[rows] for name in NUMBERS}
        return Table(**texts, tags=self.tags.take(rows), vocabulary=self.vocabulary, **numbers)

    @property
    def bytes(self) -> int:
        """Memory of all columns."""
        total = 0
        for field in fields(self):
            column = getattr(self, field.name)
            column = column.rows if isinstance(column, Strings) else column
            total += column.values.nbytes + column.offsets.nbytes if isinstance(column, Ragged) else column.nbytes
        return total


def concatenated(tables: Sequence[Table]) -> Table:
    """The rows of several tables one after the other, their vocabularies made one."""
    if len(tables) == 1:
        return tables[0]
    numbers: dict[str, int] = {}
    maps = [np.array([numbers.setdefault(word, len(numbers)) for word in one.words], np.int32) for one in tables]
    tags = [Ragged(new[one.tags.values], one.tags.offsets) for one, new in zip(tables, maps, strict=True)]
    ratings = [np.append(new, np.int32(-1))[one.rating] for one, new in zip(tables, maps, strict=True)]
    plain: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in tables]) for name in NUMBERS}
    texts: dict[str, Any] = {name: Strings(joined([getattr(one, name).rows for one in tables])) for name in TEXTS}
    plain["rating"] = np.concatenate(ratings)
    return Table(**texts, tags=joined(tags), vocabulary=Strings.of(numbers), **plain)
