"""What a finished checkpoint is, noted beside it: a reader recognises a cut or changed file."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from ldm.files.digest import sha256
from ldm.files.replacing import replace_text
from ldm.plain import read_json, record_of

SUFFIX = ".json"
LARGE = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """Bytes, their hash, and which moment of the run they are; stored as JSON in `<checkpoint>.json`."""

    size: int
    sha256: str
    step: int | None = None
    attempt: int | None = None

    def write(self, path: Path) -> None:
        """Put it beside the checkpoint at `path`. Raises OSError."""
        replace_text(manifest_path(path), json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> "Manifest | None":
        """That of the checkpoint at `path`; None where there is none or it says nothing."""
        try:
            return record_of(cls, read_json(manifest_path(path)))
        except (OSError, ValueError):
            return None

    def differs(self, path: Path) -> str | None:
        """Why the file at `path` is not the one that was written, None if it is. Raises OSError."""
        if (size := path.stat().st_size) != self.size:
            return f"it has {size:,} bytes, but {self.size:,} were written"
        if sha256(path) == self.sha256:
            return None
        return f"its contents are not what was written (see {manifest_path(path).name})"


class HashedFile:
    """A binary file for writing, with no more than `write` and `flush`, that knows what went through it."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.size = 0
        self._hash = hashlib.sha256()

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.size += size
        if size < LARGE:
            self._hash.update(data)
            return self.file.write(data)
        # Beside the writing: hashing a checkpoint takes as long as writing it.
        with ThreadPoolExecutor(1) as beside:
            beside.submit(self._hash.update, data)
            return self.file.write(data)

    def flush(self) -> None:
        self.file.flush()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def manifest(self, step: int | None, attempt: int | None) -> Manifest:
        return Manifest(self.size, self.sha256, step, attempt)


def manifest_path(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)
