"""What files hold, by hash, without reading a file again that has not changed."""

import hashlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import numpy as np

from ldm.errors import Fault
from ldm.files.replacing import replacing
from lun.data.index.dir_handle import open_file

log = logging.getLogger(__name__)

ROW = np.dtype([("stat", "V16"), ("content", "V32")])


class Contents:
    """sha256 of files, remembered in `folder` by path, inode, size, and times of last change.

    The time of the inode's change is among them, so that a file that was replaced by one of the same size and date is
    read again. Every process appends to a file of its own, so that a kill costs no other's rows.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[bytes, bytes] = {}
        self.new: list[tuple[bytes, bytes]] = []
        for file in sorted(folder.glob("*.rows")):
            data = file.read_bytes()
            rows = np.frombuffer(data, ROW, count=len(data) // ROW.itemsize)
            self.known.update(zip(map(bytes, rows["stat"]), map(bytes, rows["content"]), strict=True))

    def __call__(self, paths: Iterable[Path]) -> bytes:
        """One hash (32 bytes) over the contents of all `paths`. Raises `Fault` DAT06 for one that cannot be read."""
        return hashlib.sha256(b"".join(map(self._of, paths))).digest()

    def _of(self, path: Path) -> bytes:
        try:
            status = os.stat(path)
            label = (os.fspath(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
            stat = hashlib.blake2b(repr(label).encode("utf-8", "surrogateescape"), digest_size=16).digest()
            if stat not in self.known:
                with open_file(path) as file:
                    self.known[stat] = hashlib.file_digest(file, "sha256").digest()
                self.new.append((stat, self.known[stat]))
        except OSError as error:
            raise Fault("DAT06", f"cannot read image {path}", why=error.strerror or str(error)) from error
        return self.known[stat]

    def save(self) -> None:
        """Write down what was learned; where that cannot be done, the next start reads the files again."""
        if not self.new:
            return
        try:
            with replacing(self.folder / f"{uuid4().hex}.rows") as file:
                file.write(np.array(self.new, ROW).tobytes())
        except OSError as error:
            log.info(
                "note: %s cannot be written (%s); the next start reads all files again", self.folder, error.strerror
            )
        self.new = []
