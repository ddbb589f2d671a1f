"""What one rank of a start saw in a folder: the other ranks of its machine take it over and do not look themselves."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ldm.operating_system import host_name
from ldm.plain import parse_json
from lun.data.index.columns_file import read_columns
from lun.data.index.one_reader import one_reader
from lun.data.index.store import index_path, save_columns
from lun.data.metadata.columns import Array

_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass
class Look:
    """What is known of a folder.

    found  what another rank saw; None where none did
    seen   how what was seen here is put as a column, left by who had to look
    """

    found: Array | None = None
    seen: Callable[[], Array] | None = None


@dataclass(frozen=True)
class _Start:
    """A start of several ranks, which all ask the same.

    name   that no other start has
    asked  how often this process asked each question
    """

    name: str
    asked: Counter[tuple[str, str]] = field(default_factory=Counter)


_start: ContextVar[_Start | None] = ContextVar("start", default=None)


def share_looks(start: str | None) -> None:
    """From now on this process is one of the ranks of `start`, a name that no other start has; None: it is alone."""
    _start.set(None if start is None else _Start(start))


@contextmanager
def one_look(root: str | os.PathLike[str], what: str, of: Callable[[], bytes]) -> Iterator[Look]:
    """Look into the folder `root` alone, while the other ranks of this machine wait for what is found.

    `what` is looked for, `of` says more exactly of what. Nothing that was seen in another start, on another machine or
    by an earlier question of this process is given again; a process that is alone keeps nothing.
    """
    start = _start.get()
    if start is None:
        yield Look()
        return
    start.asked[str(root), what] += 1
    path = index_path(Path(root), f"{what}-{start.asked[str(root), what]}-{host_name()}")
    with one_reader(path):
        asked = _asked(start.name, root, of())
        look = Look(_stored(path, asked))
        yield look
        if look.found is None and look.seen is not None:
            save_columns(path, {"asked": asked, "found": look.seen()})


def as_column(plain: Any) -> Array:
    """Plain JSON as a column."""
    return np.frombuffer(json.dumps(plain).encode(), np.uint8)


def from_column(column: Array) -> Any:
    """What `as_column` was given."""
    return parse_json(column.tobytes())


def _asked(start: str, root: str | os.PathLike[str], of: bytes) -> Array:
    """The machine and the folder count, too: a cache may be shared by machines that have folders of one name each."""
    try:
        place = os.stat(root)
        folder = f"{place.st_dev} {place.st_ino}"
    except OSError:
        folder = ""
    boot = _BOOT.read_bytes() if _BOOT.exists() else b""
    return np.frombuffer(hashlib.sha256(f"{start}\n{folder}\n".encode() + boot + of).digest(), np.uint8)


def _stored(path: Path, asked: Array) -> Array | None:
    columns = read_columns(path)
    return columns["found"] if columns is not None and np.array_equal(columns["asked"], asked) else None
