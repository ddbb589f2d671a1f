"""Whether the pictures that descriptions name are there, and inside the folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lun.data.listing import EXTENSIONS, extension, joined
from lun.data.metadata.filters import Filter, Kept
from lun.data.metadata.table import Table

_ENDINGS = tuple(f".{kind}" for kind in EXTENSIONS)
_HERE, _NO_IMAGE, _LEAVES, _MISSING = range(4)


class Presence:
    """Looks each folder up once: a listing answers for thousands of pictures at the price of a few."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.real_root = os.path.realpath(root)
        self.folders: dict[str, dict[str, bool] | None] = {}
        self.here: set[str] = set()
        """images that are no links, as most are"""
        self.states: NDArray[np.uint8] | None = None

    def filters(self) -> list[Filter]:
        """Files that are no images by their name, then links out of the folder, then what is missing."""
        return [
            Filter("extension", "not an image by its name", lambda table, left: self._kept(table, left, _NO_IMAGE)),
            Filter("leaves", "links that lead out of the folder", lambda table, left: self._kept(table, left, _LEAVES)),
            Filter("missing", "image missing", lambda table, left: self._kept(table, left, _MISSING)),
        ]

    def _kept(self, table: Table, left: Kept, state: int) -> Kept:
        if self.states is None:  # the first to ask decides about all rows that are left
            self.states = np.zeros(len(table), np.uint8)
            rows = np.flatnonzero(left)
            paths = table.path.at(rows)
            for folder in {path.rpartition("/")[0] for path in paths}:
                self._folder(folder)
            here = self.here
            self.states[rows] = [_HERE if path in here else self._state(path) for path in paths]
        kept: Kept = self.states != state
        return kept

    def _state(self, path: str) -> int:
        if extension(path) not in EXTENSIONS:
            return _NO_IMAGE
        folder, _, name = path.rpartition("/")
        inside = self._folder(folder)
        if inside is None:
            return _LEAVES
        is_link = inside.get(name)
        if is_link is None:
            return _MISSING
        return _LEAVES if is_link and self._leaves(path) else _HERE

    def _folder(self, folder: str) -> dict[str, bool] | None:
        """name -> whether it is a link; None for a folder outside the root."""
        if folder not in self.folders:
            self.folders[folder] = None if self._leaves(folder) else self._listed(folder)
        return self.folders[folder]

    def _listed(self, folder: str) -> dict[str, bool]:
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                found = {entry.name: entry.is_symlink() for entry in entries}
        except OSError:  # no such folder: its pictures are missing
            return {}
        self.here.update(
            joined(folder, name) for name, is_link in found.items() if not is_link and name.endswith(_ENDINGS)
        )
        return found

    def _leaves(self, path: str) -> bool:
        real = os.path.realpath(os.path.join(self.root, path))
        return real != self.real_root and not real.startswith(self.real_root.rstrip(os.sep) + os.sep)
