"""Whether the pictures that descriptions name are there, and inside the folder."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from lun.data.metadata.filters import Filter, Kept
from lun.data.metadata.table import Table


class Presence:
    """Looks each folder up once: a listing answers for thousands of pictures at the price of a few."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.real_root = os.path.realpath(root)
        self.folders: dict[str, dict[str, bool] | None] = {}

    def filters(self) -> list[Filter]:
        """First what leads out of the folder through a link, then what is missing."""
        return [
            Filter("leaves", "links that lead out of the folder", lambda table, left: self._kept(table, left, False)),
            Filter("missing", "image missing", lambda table, left: self._kept(table, left, True)),
        ]

    def _kept(self, table: Table, left: Kept, missing: bool) -> Kept:
        keep = left.copy()
        for row in np.flatnonzero(left).tolist():
            path = table.path[row]
            folder, _, name = path.rpartition("/")
            inside = self._folder(folder)
            if missing:
                keep[row] = inside is not None and name in inside
            else:
                keep[row] = inside is not None and not (inside.get(name, False) and self._leaves(path))
        return keep

    def _folder(self, folder: str) -> dict[str, bool] | None:
        """name -> whether it is a link; None for a folder outside the root."""
        if folder not in self.folders:
            self.folders[folder] = None if self._leaves(folder) else self._listed(folder)
        return self.folders[folder]

    def _listed(self, folder: str) -> dict[str, bool]:
        try:
            with os.scandir(os.path.join(self.root, folder)) as entries:
                return {entry.name: entry.is_symlink() for entry in entries}
        except OSError:  # no such folder: its pictures are missing
            return {}

    def _leaves(self, path: str) -> bool:
        real = os.path.realpath(os.path.join(self.root, path))
        return real != self.real_root and not real.startswith(self.real_root.rstrip(os.sep) + os.sep)
