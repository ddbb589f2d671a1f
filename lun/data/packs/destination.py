"""Where a packed set is written, a folder or what a URL names: a file is there whole under its name, or not at all."""

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, NamedTuple, Protocol

from ldm.errors import Fault
from ldm.files.replacing import is_leftover, replacing
from ldm.shell import quoted
from lun.data.packs.remote import Remote
from lun.data.packs.storage import Folder, Storage

WRITABLE = ("s3", "gs", "az")
"""Schemes of storage that takes files."""


class FileDigest(NamedTuple):
    """How long a file is, and the hash of its bytes."""

    length: int
    sha256: bytes


class Destination(Protocol):
    """Where the files of one set go. Every method raises OSError or `Fault` DAT13 or DAT15 where it cannot."""

    where: str
    emptied: str
    """How a person makes it empty."""

    @property
    def storage(self) -> Storage:
        """To read what is there."""

    def names(self) -> set[str]:
        """The files that are there."""

    def new(self, name: str) -> AbstractContextManager[BinaryIO]:
        """A file to write, which is there when the block ends well and nowhere when it does not."""

    def delete(self, name: str) -> None:
        """Take a file away."""

    def hashed(self, name: str) -> FileDigest:
        """What a file that is there holds."""


class FolderDestination:
    """A folder of this machine, made where it is not there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.where = str(folder)
        self.emptied = f"rm -r {quoted(folder)}"
        self.storage = Folder(folder)

    def names(self) -> set[str]:
        """Without what a killed process left, which goes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        found = list(self.folder.iterdir())
        for path in filter(is_leftover, found):
            path.unlink()
        return {path.name for path in found if not is_leftover(path)}

    def new(self, name: str) -> AbstractContextManager[BinaryIO]:
        return replacing(self.folder / name)

    def delete(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def hashed(self, name: str) -> FileDigest:
        with (self.folder / name).open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").digest()
            return FileDigest(file.tell(), sha256)


class RemoteDestination:
    """What a URL names; a file is sent when it is whole, from a nameless one of this machine."""

    def __init__(self, storage: Remote) -> None:
        self.storage = storage
        self.where = storage.where
        self.emptied = f"delete all that is below {self.where}"

    def names(self) -> set[str]:
        return self.storage.names()

    @contextmanager
    def new(self, name: str) -> Iterator[BinaryIO]:
        with TemporaryFile() as file:
            yield file
            self.storage.put(name, file)

    def delete(self, name: str) -> None:
        self.storage.delete(name)

    def hashed(self, name: str) -> FileDigest:
        length, digest = 0, hashlib.sha256()
        for portion in self.storage.portions(name):
            length += len(portion)
            digest.update(portion)
        return FileDigest(length, digest.digest())


def destination_of(where: str) -> Destination:
    """The folder or URL at which a set is to be written. Raises `Fault` CLI03 for what takes no files."""
    scheme, colon, _ = where.partition("://")
    if not colon or scheme == "file":
        return FolderDestination(Path(where.removeprefix("file://")).expanduser())
    if scheme not in WRITABLE:
        takes = ", ".join(f"{one}://" for one in WRITABLE)
        raise Fault("CLI03", f"no set can be written to a {scheme}:// URL", where="-o", why=f"it takes DIR, {takes}")
    return RemoteDestination(Remote(where))
