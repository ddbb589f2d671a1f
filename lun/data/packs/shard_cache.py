"""Shards of a remote set kept in a folder of this machine, as many as fit."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ldm.errors import Fault
from ldm.files.replacing import replacing
from ldm.operating_system import lock_open_file, open_to_read, read_at
from lun.data.packs.remote import Remote
from lun.data.packs.set_file import TarShard
from lun.data.packs.storage import Piece

_PORTION = 64 << 20


class CachedShards:
    """The files of `storage`, whose shards are copied into `folder` whole when a first piece of them is asked for.

    most   bytes of all copies; the ones that were not read for longest go first
    Copies are named by what they hold, so that several runs and sets share them. Every sample is checked by its
    checksum after it was read here as well.
    """

    def __init__(self, storage: Remote, folder: Path, most: int) -> None:
        self.storage = storage
        self.where = storage.where
        self.folder = folder
        self.most = most

    def path(self, name: str) -> str:
        return self.storage.path(name)

    def whole(self, names: Sequence[str]) -> list[bytes]:
        return self.storage.whole(names)

    def several(self, wanted: Sequence[tuple[TarShard, Sequence[Piece]]]) -> list[list[bytes]]:
        return [self.pieces(shard, pieces) for shard, pieces in wanted]

    def pieces(self, shard: TarShard, wanted: Sequence[Piece]) -> list[bytes]:
        with self._opened(shard) as file:
            return [read_at(file, length, first) for first, length in wanted]

    def forget(self, shard: TarShard) -> None:
        """Drop the copy of a shard that turned out to be damaged."""
        self._file(shard).unlink(missing_ok=True)

    def _file(self, shard: TarShard) -> Path:
        return self.folder / f"{shard.sha256[:32]}.tar"

    @contextmanager
    def _opened(self, shard: TarShard) -> Iterator[int]:
        path = self._file(shard)
        try:
            file = open_to_read(path)
        except FileNotFoundError:
            file = self._fetched(shard, path)
        try:
            os.utime(file)
            yield file
        finally:
            os.close(file)

    def _fetched(self, shard: TarShard, path: Path) -> int:
        """An open copy; one process of the machine fetches a shard, and the others wait for it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with open(self.folder / f".{path.stem}.lock", "w") as lock:
                lock_open_file(lock)
                if not path.exists():
                    self._make_room(shard.bytes)
                    self._copy(shard, path)
                return open_to_read(path)
        except OSError as error:
            why = error.strerror or str(error)
            raise Fault("DSK01", f"the cache of shards in {self.folder} cannot be written", why=why) from error

    def _copy(self, shard: TarShard, path: Path) -> None:
        with replacing(path) as file:
            for first in range(0, shard.bytes, _PORTION):
                file.write(self.storage.pieces(shard, [(first, min(_PORTION, shard.bytes - first))])[0])

    def _make_room(self, needed: int) -> None:
        found = []
        for path in self.folder.glob("*.tar"):
            with suppress(FileNotFoundError):  # another process makes room as well
                status = path.stat()
                found.append((status.st_mtime_ns, status.st_size, path))
        held = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if held + needed <= self.most:
                break
            path.unlink(missing_ok=True)
            held -= size
