"""The table of a data set: one row per picture, in columns, a few hundred bytes each."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lun.data.metadata.columns import Ragged, Strings, joined

SOUND, UNREADABLE, NO_PATH, OUTSIDE = range(4)
"""What was wrong with a description, in `Table.problem`."""

_TEXTS = ("path", "source", "text")

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
_NOTHING: dict[str, float] = {}


@dataclass(frozen=True)
class Table:
    """Everything known about n pictures before one is opened."""

    path: Strings
    """of the picture, relative to the root, with `/`"""
    source: Strings
    """of the file that describes it, the same way; empty: there is none"""
    text: Strings
    """captions, one to a line"""
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
        texts: dict[str, Any] = {name: Strings(getattr(self, name).rows.take(rows)) for name in _TEXTS}
        numbers: dict[str, Any] = {name: getattr(self, name)[rows] for name in NUMBERS}
        return Table(**texts, tags=self.tags.take(rows), vocabulary=self.vocabulary, **numbers)

    @property
    def bytes(self) -> int:
        """Memory of all columns."""
        found = 0
        for field in fields(self):
            column = getattr(self, field.name)
            column = column.rows if isinstance(column, Strings) else column
            found += column.values.nbytes + column.offsets.nbytes if isinstance(column, Ragged) else column.nbytes
        return found


def concatenated(tables: Sequence[Table]) -> Table:
    """The rows of several tables one after the other, their vocabularies made one."""
    if len(tables) == 1:
        return tables[0]
    numbers: dict[str, int] = {}
    maps = [np.array([numbers.setdefault(word, len(numbers)) for word in one.words], np.int32) for one in tables]
    tags = [Ragged(new[one.tags.values], one.tags.offsets) for one, new in zip(tables, maps, strict=True)]
    ratings = [np.append(new, np.int32(-1))[one.rating] for one, new in zip(tables, maps, strict=True)]
    plain: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in tables]) for name in NUMBERS}
    texts: dict[str, Any] = {name: Strings(joined([getattr(one, name).rows for one in tables])) for name in _TEXTS}
    plain["rating"] = np.concatenate(ratings)
    return Table(**texts, tags=joined(tags), vocabulary=Strings.of(numbers), **plain)


class _Numbering(dict[Any, int]):
    """The number of each tag as it was written; one not met so far gets the next, and what is blank -1."""

    def __init__(self, vocabulary: dict[str, int]) -> None:
        super().__init__()
        self.vocabulary = vocabulary
        self.blanks = False

    def __missing__(self, tag: Any) -> int:
        word = self._word(tag)
        if not word:
            self.blanks = True
            return -1
        number = self.vocabulary.setdefault(word, len(self.vocabulary))
        if type(tag) is str:  # 1 and true would be the same key
            self[tag] = number
        return number

    @staticmethod
    def _word(tag: Any) -> str:
        if isinstance(tag, bool):
            return "true" if tag else "false"
        return str(tag).strip() if isinstance(tag, str | int | float) else ""


class Rows:
    """A table under construction, row by row."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {name: [] for name in _TEXTS}
        self.tags = array("i")
        self.lengths = array("i")
        self.vocabulary: dict[str, int] = {}
        self.known = _Numbering(self.vocabulary)
        self.given: dict[str, tuple[array[int], array[float]]] = {name: (array("q"), array("d")) for name in NUMBERS}

    def add(
        self,
        path: str,
        source: str = "",
        text: str = "",
        tags: Sequence[Any] = (),
        numbers: Mapping[str, float] = _NOTHING,
    ) -> None:
        """One more picture; a number that is not given is not known. Tags may be anything that JSON has."""
        row, texts, known = len(self.lengths), self.texts, self.known
        texts["path"].append(path)
        texts["source"].append(source)
        texts["text"].append(text)
        known.blanks = False
        try:
            found = list(map(known.__getitem__, tags))
        except TypeError:  # something that is no tag, such as a list
            found = [known[tag] for tag in tags if isinstance(tag, str | int | float)]
        if known.blanks:
            found = [number for number in found if number >= 0]
        self.tags.fromlist(found)
        self.lengths.append(len(found))
        for name, value in numbers.items():
            rows, values = self.given[name]
            rows.append(row)
            values.append(value)

    def number(self, word: str) -> int:
        """The number of `word` in the vocabulary."""
        return self.vocabulary.setdefault(word, len(self.vocabulary))

    def table(self) -> Table:
        """What was added so far."""
        numbers: dict[str, Any] = {}
        for name, (rows, values) in self.given.items():
            numbers[name] = np.full(len(self.lengths), _UNKNOWN[name], NUMBERS[name])
            numbers[name][np.array(rows, np.int64)] = np.array(values)
        texts: dict[str, Any] = {name: Strings.of(column) for name, column in self.texts.items()}
        return Table(
            **texts,
            tags=Ragged.of(np.array(self.tags, np.int32), self.lengths),
            vocabulary=Strings.of(self.vocabulary),
            **numbers,
        )
