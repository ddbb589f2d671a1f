"""Where the files of a packed set lie: pieces of them by name, from a folder or from what answers to a URL."""

import os
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from ldm.errors import Fault
from ldm.operating_system import open_to_read, read_at
from lun.data.index.dir_handle import open_file, require_regular
from lun.data.packs.set_file import COPY, SET_FILE, TarShard

Piece = tuple[int, int]
"""(first byte, bytes)"""

MOST_OPEN = 64


class Storage(Protocol):
    """The files of one set, by their names in it."""

    where: str

    def path(self, name: str) -> str:
        """What a person calls the file."""

    def whole(self, names: Sequence[str]) -> list[bytes]:
        """The contents of several files. Raises `Fault` DAT13 for one that cannot be read."""

    def pieces(self, shard: TarShard, wanted: Sequence[Piece]) -> list[bytes]:
        """Pieces of one shard. Raises `Fault` DAT13, DAT14 for a file of another length, DAT15 for no answer."""

    def several(self, wanted: Sequence[tuple[TarShard, Sequence[Piece]]]) -> list[list[bytes]]:
        """Pieces of several shards, at the same time where that is faster."""

    def forget(self, shard: TarShard) -> None:
        """Keep no copy of a shard any more."""


class Folder:
    """A set in a folder; shards are held open, the last `MOST_OPEN` of them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.where = str(root)
        self._open: OrderedDict[str, int] = OrderedDict()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": OrderedDict()}  # another process opens them itself

    def path(self, name: str) -> str:
        return f"{self.where}/{name}"

    def whole(self, names: Sequence[str]) -> list[bytes]:
        return [self._whole(name) for name in names]

    def _whole(self, name: str) -> bytes:
        try:
            with open_file(self.root / name) as file:
                return file.read()
        except OSError as error:
            raise self._cannot(name, error) from error

    def pieces(self, shard: TarShard, wanted: Sequence[Piece]) -> list[bytes]:
        try:
            file = self._held(shard.name, shard.bytes)
            return [read_at(file, count, first) for first, count in wanted]
        except OSError as error:
            raise self._cannot(shard.name, error) from error

    def several(self, wanted: Sequence[tuple[TarShard, Sequence[Piece]]]) -> list[list[bytes]]:
        return [self.pieces(shard, pieces) for shard, pieces in wanted]

    def forget(self, shard: TarShard) -> None:
        """There is none."""

    def _held(self, name: str, length: int) -> int:
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        while len(self._open) >= MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        require_regular(os.stat(self.root / name))
        file = open_to_read(self.root / name)
        found = os.fstat(file).st_size
        if found != length:
            os.close(file)
            raise other_length(self.path(name), found, length)
        self._open[name] = file
        return file

    def _cannot(self, name: str, error: OSError) -> Fault:
        fix = "" if (self.root / SET_FILE).exists() else f"the folder that holds {SET_FILE}"
        why = error.strerror or str(error)
        return Fault("DAT13", f"cannot read {self.path(name)}", where=self.where, why=why, fix=fix or COPY)


def other_length(path: str, found: int, length: int) -> Fault:
    """DAT14 for a shard that is cut, or was written anew."""
    why = f"it has {found:,} bytes, and {length:,} when it was packed"
    return Fault("DAT14", f"{path} is not the shard that was packed", where=path, why=why, fix=COPY)
