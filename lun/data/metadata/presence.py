"""Whether the pictures that descriptions name are there, and inside the folder."""

from __future__ import annotations

import dataclasses
import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lun.data.index.listing import EXTENSIONS, LEAVES, SPECIAL, composed, extension, joined, leads_out
from lun.data.index.looked_once import as_column, from_column, one_look
from lun.data.metadata.columns import Strings
from lun.data.metadata.filters import Filter, Kept
from lun.data.metadata.picture_table import Table

_ENDINGS = tuple(f".{kind}" for kind in EXTENSIONS)
_HERE, _NO_IMAGE, _LEAVES, _MISSING, _SPECIAL, _LINK = range(6)
_CANNOT_BE_LISTED = (OSError, ValueError)
"""No such folder, or a name that no folder can have, such as one with half a pair of surrogates."""


def as_on_disk(root: Path, table: Table) -> Table:
    """The table with paths as the disk writes their accents, where only that differs."""
    if table.path.is_ascii:
        return table
    with one_look(root, "spelling", table.path.rows.values.tobytes) as look:
        paths = _on_disk(root, table.path) if look.found is None else from_column(look.found)
        look.seen = lambda: as_column(paths)
    return dataclasses.replace(table, path=Strings.of(paths))


def _on_disk(root: Path, paths: Strings) -> list[str]:
    names: dict[str, dict[str, str]] = {}

    def on_disk(path: str) -> str:
        folder, _, name = path.rpartition("/")
        if path.isascii() or os.path.lexists(os.path.join(root, path)):
            return path
        place = folder
        for spelling in dict.fromkeys((folder, composed(folder), unicodedata.normalize("NFD", folder))):
            if os.path.isdir(os.path.join(root, spelling)):
                place = spelling
        if place not in names:
            names[place] = {composed(one): one for one in _names(os.path.join(root, place))}
        return joined(place, names[place].get(composed(name), name))

    return [on_disk(path) if _is_text(path) else path for path in paths]


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except _CANNOT_BE_LISTED:
        return []


def _is_text(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return "\0" not in path


class Presence:
    """Looks each folder up once: a listing answers for thousands of pictures at the price of a few.

    follow_links  whether links may lead out of the folder
    """

    def __init__(self, root: Path, follow_links: bool = False) -> None:
        self.root = root
        self.real_root = None if follow_links else os.path.realpath(root)
        self.folders: dict[str, dict[str, int] | None] = {}
        self.here: set[str] = set()
        """images that are no links, as most are"""
        self.states: NDArray[np.uint8] | None = None

    def filters(self) -> list[Filter]:
        """Files that are no images by their name, then links out of the folder, then what is missing."""
        return [
            Filter("extension", "not an image by its name", lambda table, left: self._kept(table, left, _NO_IMAGE)),
            Filter("leaves", LEAVES, lambda table, left: self._kept(table, left, _LEAVES)),
            Filter("special", SPECIAL, lambda table, left: self._kept(table, left, _SPECIAL)),
            Filter("missing", "image missing", lambda table, left: self._kept(table, left, _MISSING)),
        ]

    def _kept(self, table: Table, left: Kept, state: int) -> Kept:
        if self.states is None:  # the first to ask decides about all rows that are left
            self.states = np.zeros(len(table), np.uint8)
            rows = np.flatnonzero(left)
            paths = table.path.at(rows)
            self._look({path.rpartition("/")[0] for path in paths})
            here = self.here
            self.states[rows] = [_HERE if path in here else self._state(path) for path in paths]
        kept: Kept = self.states != state
        return kept

    def _look(self, folders: Iterable[str]) -> None:
        """List all of `folders`; one rank of a machine does it for all."""

        def asked() -> bytes:
            return repr((sorted(folders), self.real_root)).encode("utf-8", "surrogatepass")

        with one_look(self.root, "pictures", asked) as look:
            self.folders = {} if look.found is None else from_column(look.found)
            for folder in folders:
                inside = self._folder(folder)
                self.here.update(_images(folder, inside or {}))
            look.seen = lambda: as_column(self.folders)

    def _state(self, path: str) -> int:
        if extension(path) not in EXTENSIONS:
            return _NO_IMAGE
        folder, _, name = path.rpartition("/")
        inside = self._folder(folder)
        if inside is None:
            return _LEAVES
        state = inside.get(name, _MISSING)
        return self._linked(path) if state == _LINK else state

    def _linked(self, path: str) -> int:
        """The state of a link to a picture."""
        if self._leaves(path):
            return _LEAVES
        place = os.path.join(self.root, path)
        return _HERE if os.path.isfile(place) else _SPECIAL if os.path.exists(place) else _MISSING

    def _folder(self, folder: str) -> dict[str, int] | None:
        """name -> what it is; None for a folder outside the root."""
        if folder not in self.folders:
            try:
                self.folders[folder] = None if self._leaves(folder) else self._listed(folder)
            except _CANNOT_BE_LISTED:  # its pictures are missing
                self.folders[folder] = {}
        return self.folders[folder]

    def _listed(self, folder: str) -> dict[str, int]:
        with os.scandir(os.path.join(self.root, folder)) as entries:
            return {
                entry.name: _LINK if entry.is_symlink() else _HERE if entry.is_file(follow_symlinks=False) else _SPECIAL
                for entry in entries
            }

    def _leaves(self, path: str) -> bool:
        return self.real_root is not None and leads_out(os.path.join(self.root, path), self.real_root)


def _images(folder: str, inside: Mapping[str, int]) -> Iterator[str]:
    """Paths of the files in `folder` that are images by their name, links aside."""
    return (joined(folder, name) for name, state in inside.items() if state == _HERE and name.endswith(_ENDINGS))
