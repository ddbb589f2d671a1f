"""A table under construction, in plain Python, so that a process which reads descriptions starts at once."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

SOUND, UNREADABLE, NO_PATH, OUTSIDE, EMBEDDED, ODD_REPEATS, NO_WORDS = range(7)
"""What was wrong with a description, in `Table.problem`; `NO_WORDS`: neither text nor tags, not even none of them."""

MOST_REPEATS = 100_000
"""Of one picture in one epoch: an epoch's order is kept in memory, eight bytes an example."""

TEXTS = ("path", "source", "text", "further")

Given = tuple[array, array]
"""Rows and a number for each of them."""
Encoded = tuple[bytes, array]
"""All texts behind one another in UTF-8, and the length of each in bytes."""

KEEPS_ODD_NAMES = "surrogatepass"
"""File names that are no UTF-8 come back as they were."""
_NO_HALVES = "replace"
"""Half a pair of surrogates, as JSON can hold it, is no text that a tokenizer reads: a question mark."""
_NOTHING: dict[str, float] = {}


class Packed(NamedTuple):
    """Rows in a few flat buffers: what goes from one process to another, and what a table is made of."""

    texts: dict[str, Encoded]
    tags: array[int]
    lengths: array[int]
    """how many tags each row has"""
    vocabulary: Encoded
    given: dict[str, Given]


def encoded(texts: Sequence[str], errors: str = KEEPS_ODD_NAMES) -> Encoded:
    """The bytes of all texts, and how many are of each; `errors` is about what is no text."""
    whole = "".join(texts)
    if whole.isascii():
        return whole.encode(), array("q", map(len, texts))
    several = [text.encode("utf-8", errors) for text in texts]
    return b"".join(several), array("q", map(len, several))


def _nothing_given() -> Given:
    return array("q"), array("d")


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
        self.paths: list[str] = []
        self.sources: list[str] = []
        self.captions: list[str] = []
        self.further: list[str] = []
        self.tags = array("i")
        self.lengths = array("i")
        self.vocabulary: dict[str, int] = {}
        self.known = _Numbering(self.vocabulary)
        self.given: defaultdict[str, Given] = defaultdict(_nothing_given)

    def add(
        self,
        path: str,
        source: str = "",
        text: str = "",
        tags: Sequence[Any] = (),
        numbers: Mapping[str, float] = _NOTHING,
        further: str = "",
    ) -> None:
        """One more picture; a number that is not given is not known. Tags may be anything that JSON has."""
        row, known = len(self.lengths), self.known
        self.paths.append(path)
        self.sources.append(source)
        self.captions.append(text)
        self.further.append(further)
        known.blanks = False
        try:
            tag_numbers = list(map(known.__getitem__, tags))
        except TypeError:  # something that is no tag, such as a list
            tag_numbers = [known[tag] for tag in tags if isinstance(tag, str | int | float)]
        if known.blanks:
            tag_numbers = [number for number in tag_numbers if number >= 0]
        self.tags.fromlist(tag_numbers)
        self.lengths.append(len(tag_numbers))
        for name, value in numbers.items():
            rows, values = self.given[name]
            rows.append(row)
            values.append(value)

    def number(self, word: str) -> int:
        """The number of `word` in the vocabulary."""
        return self.vocabulary.setdefault(word, len(self.vocabulary))

    def packed(self) -> Packed:
        """What was added so far."""
        names = zip(TEXTS, map(encoded, (self.paths, self.sources)), strict=False)
        captions = {"text": self.captions, "further": self.further}
        texts = {**dict(names), **{name: encoded(own, _NO_HALVES) for name, own in captions.items()}}
        return Packed(texts, self.tags, self.lengths, encoded(list(self.vocabulary), _NO_HALVES), dict(self.given))
