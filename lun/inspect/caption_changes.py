"""Captions as they were written, beside what the rules make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.inspect.view import DatasetView

SHOWN = 10


@dataclass(frozen=True)
class CaptionPiece:
    """A tag or word of a caption; `changed`: the other side has not got it."""

    text: str
    changed: bool


@dataclass(frozen=True)
class Change:
    """One caption, before and after; another order is a change."""

    name: str
    written: list[CaptionPiece]
    seen: list[CaptionPiece]

    @property
    def is_one(self) -> bool:
        return [piece.text for piece in self.written] != [piece.text for piece in self.seen]


def changes_of(data: DatasetView, seed: int) -> list[Change]:
    """Of pictures spread evenly, as the first epoch of a run with `seed` would read them."""
    if not data.access.has("written", "caption", "compose"):
        return []
    step = max(1, len(data) // SHOWN)
    changes = []
    for index in range(0, len(data), step):
        try:
            changes.append(_change(data, index, seed))
        except Fault:
            continue  # a caption file that cannot be read is listed among the rejected
    return changes[:SHOWN]


def _change(data: DatasetView, index: int, seed: int) -> Change:
    text, tags = data.dataset.written(index)
    seen, separator = data.dataset.caption(index, Draws(seed, index)), data.dataset.compose.separator
    before = [*tags, *_pieces(text, separator if not tags else None)]
    return Change(data.name(index), *compared(before, _pieces(seen, separator)))


def _pieces(text: str, separator: str | None) -> list[str]:
    """Tags where the text is a list of them, else words."""
    by = separator.strip() if separator else None
    parts = text.split(by) if by and by in text else text.split(",") if "," in text else text.split()
    return [part for part in (part.strip() for part in parts) if part]


def compared(before: Sequence[str], after: Sequence[str]) -> tuple[list[CaptionPiece], list[CaptionPiece]]:
    """Both sides with what the other has not got marked; what only moved is not."""
    return _marked(before, Counter(after)), _marked(after, Counter(before))


def _marked(pieces: Sequence[str], other: Counter[str]) -> list[CaptionPiece]:
    marked = []
    for piece in pieces:
        marked.append(CaptionPiece(piece, other[piece] <= 0))
        other[piece] -= 1
    return marked
