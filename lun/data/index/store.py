"""What an earlier start read about a folder, kept under LUN_CACHE and never in the folder itself."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.place import cache_root
from lun.data.index.columns_file import read_columns, write_columns
from lun.data.index.one_reader import one_reader
from lun.data.metadata.columns import Array, Ragged, Strings
from lun.data.metadata.picture_table import NUMBERS, Table, concatenated
from lun.data.metadata.table_builder import TEXTS

log = logging.getLogger(__name__)


def index_path(root: Path, kind: str) -> Path:
    """Where the index of `root` lies; `kind` distinguishes its parts."""
    real = os.path.realpath(root)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:20]
    return cache_root() / "index" / f"{os.path.basename(real) or 'root'}-{digest}" / f"{kind}.columns"


@dataclass(frozen=True)
class Stamps:
    """Which files were read and in which state, so that a changed one is noticed: a row for each."""

    keys: NDArray[np.uint64]
    """(n,) a hash of the path"""
    states: NDArray[np.int64]
    """(n, 2) size in bytes and time of the last change in nanoseconds"""

    @classmethod
    def of(cls, names: Iterable[str], states: NDArray[np.int64]) -> Stamps:
        return cls(path_keys(names), states)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Stamps)
            and np.array_equal(self.keys, other.keys)
            and np.array_equal(self.states, other.states)
        )

    def known_in(self, stored: Stamps) -> NDArray[np.int64]:
        """(n,): in which row of `stored` a file stands in the same state; -1: in none."""
        order = np.argsort(stored.keys, kind="stable")
        places = np.searchsorted(stored.keys[order], self.keys)
        rows = order[np.minimum(places, len(order) - 1)] if len(order) else np.zeros(len(self.keys), np.int64)
        if not len(order):
            return np.full(len(self.keys), -1)
        same = (stored.keys[rows] == self.keys) & (stored.states[rows] == self.states).all(axis=1)
        return np.where(same, rows, -1)


def path_keys(names: Iterable[str]) -> NDArray[np.uint64]:
    """(n,): 64 bits of a hash for each path; equal for different ones about once in 10^19 pairs."""
    blake2b = hashlib.blake2b
    hashed = [blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest() for name in names]
    return np.frombuffer(b"".join(hashed), np.uint64)


Parse = Callable[[NDArray[np.int64]], Table]
"""Reads the files of the given rows: one row of the table each, or however many where it is asked for the whole."""


def indexed(root: Path, kind: str, stamps: Stamps, parse: Parse, whole: bool = False) -> tuple[Table, bool]:
    """The table of the files that `stamps` describes, and whether nothing had to be read for it.

    What the stored index knows in the same state is taken from there, the rest is parsed, by one process of a machine
    for all. `whole`: rows of the table do not stand for files, so that it is all or nothing.
    """
    path = index_path(root, kind)
    stored = _load(path)
    if stored is not None and stored[0] == stamps:
        return stored[1], True
    with one_reader(path):
        stored = _load(path)
        if stored is not None and stored[0] == stamps:
            return stored[1], True
        table = parse(np.arange(len(stamps.keys))) if whole or stored is None else _mended(*stored, stamps, parse)
        store(root, kind, stamps, table)
        return table, False


def _mended(known: Stamps, old: Table, stamps: Stamps, parse: Parse) -> Table:
    rows = stamps.known_in(known)
    new = np.flatnonzero(rows < 0)
    kept = old.take(rows[rows >= 0])
    if not len(new):
        return kept
    both = concatenated([kept, parse(new)])
    places = np.empty(len(rows), np.int64)
    places[np.flatnonzero(rows >= 0)] = np.arange(len(kept))
    places[new] = len(kept) + np.arange(len(new))
    return both.take(places)


def save_columns(path: Path, columns: dict[str, Array]) -> None:
    """Store part of an index; where that cannot be done it is said, and the next start reads everything again."""
    try:
        write_columns(path, columns)
    except OSError as error:
        log.info("note: the index %s cannot be written (%s); the next start reads all again", path, error.strerror)


def is_stored(root: Path, kind: str) -> bool:
    """Whether an earlier start left something, whole or damaged."""
    return index_path(root, kind).exists()


def store(root: Path, kind: str, stamps: Stamps, table: Table) -> None:
    """Keep the table of the files that `stamps` describes for the next start."""
    columns: dict[str, Array] = {"keys": stamps.keys, "states": stamps.states}
    for name in (*TEXTS, "vocabulary"):
        column: Strings = getattr(table, name)
        columns[name], columns[name + ".offsets"] = column.rows.values, column.rows.offsets
    columns["tags"], columns["tags.offsets"] = table.tags.values, table.tags.offsets
    save_columns(index_path(root, kind), columns | {name: getattr(table, name) for name in NUMBERS})


def _load(path: Path) -> tuple[Stamps, Table] | None:
    columns = read_columns(path)
    if columns is None:
        return None
    texts: dict[str, Any] = {
        name: Strings(Ragged(columns[name], columns[name + ".offsets"])) for name in (*TEXTS, "vocabulary")
    }
    numbers: dict[str, Any] = {name: columns[name] for name in NUMBERS}
    table = Table(**texts, tags=Ragged(columns["tags"], columns["tags.offsets"]), **numbers)
    return Stamps(columns["keys"], columns["states"]), table
