"""What identifies pictures and copies of them: a hash of what is seen, and one of the bytes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ldm.errors import Fault
from lun.data.images.difference_hash import difference_hash
from lun.data.images.near_hashes import groups_of, near
from lun.data.index.dir_handle import FileInMemory, open_file
from lun.inspect.view import DatasetView

_DIGEST = 16  # bytes


@dataclass(frozen=True)
class Prints:
    """Of n pictures.

    seen      (n,) uint64 difference hashes, and `comparable` (n,): whether there is one
    contents  (n,) hashes of their bytes; empty for what cannot be read, or where nobody asked
    """

    seen: NDArray[np.uint64]
    comparable: NDArray[np.bool_]
    contents: Sequence[bytes]

    def alike(self) -> list[list[int]]:
        """Groups of places that look alike, copies among them."""
        places = np.flatnonzero(self.comparable)
        return [places[group].tolist() for group in near(self.seen[places])]

    def copies(self) -> list[list[int]]:
        """Groups of places with the same bytes."""
        places = np.array([place for place, content in enumerate(self.contents) if content], np.int64)
        if not len(places):
            return []
        _, which = np.unique(np.array([self.contents[place] for place in places.tolist()]), return_inverse=True)
        return [places[group].tolist() for group in groups_of(which)]

    def __add__(self, other: Prints) -> Prints:
        return Prints(
            np.concatenate([self.seen, other.seen]),
            np.concatenate([self.comparable, other.comparable]),
            [*self.contents, *other.contents],
        )


NO_PRINTS = Prints(np.zeros(0, np.uint64), np.zeros(0, bool), [])


def prints_of(data: DatasetView, indices: Sequence[int], contents: bool = True) -> Prints:
    """Reads these pictures; `contents`: all of their bytes, where the look of a JPEG needs but a part."""
    found = data.over_files(indices, lambda index: _print_of(data, index, contents))
    hashes = [number for number, _ in found]
    return Prints(
        np.array([number or 0 for number in hashes], np.uint64),
        np.array([number is not None for number in hashes], bool),
        [content for _, content in found],
    )


def _print_of(data: DatasetView, index: int, contents: bool) -> tuple[int | None, bytes]:
    try:
        file = data.file(index)
        if not contents:
            return difference_hash(file), b""
        with open_file(file) as opened:
            held = FileInMemory(os.fspath(file), opened.read())
    except (Fault, OSError):  # reported among the unreadable
        return None, b""
    # not all zero at its end, which arrays of bytes would cut
    digest = hashlib.blake2b(held.data, digest_size=_DIGEST).digest() + b"."
    return difference_hash(held), digest
