"""Looking at and opening many files of few folders, for less than full paths cost."""

import errno
import os
import stat
from dataclasses import dataclass
from io import BufferedReader, BytesIO

from ldm.operating_system import FolderHandle

State = tuple[int, int]
"""Size in bytes and time of the last change in nanoseconds."""

UNKNOWN: State = (-1, -1)
"""Of a file that cannot be looked at."""


@dataclass(frozen=True)
class FileInMemory(os.PathLike[str]):
    """What a file holds, wherever it came from; takes the place of a path for whoever calls `open_file`.

    name  what messages call it
    """

    name: str
    data: bytes

    def __fspath__(self) -> str:
        return self.name


def open_file(path: str | os.PathLike[str]) -> BufferedReader | BytesIO:
    """A regular file, to be read. Raises OSError for one that cannot be opened, and for what is none.

    FIFOs, sockets and devices are never opened: reading them may never end.
    """
    if isinstance(path, FileInMemory):
        return BytesIO(path.data)
    require_regular(os.stat(path))
    return open(path, "rb")


def require_regular(status: os.stat_result) -> None:
    """Raise OSError for what is neither a regular file nor, since that is known on opening, a folder."""
    mode = status.st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise OSError(errno.EINVAL, f"not a file but a {_kind(mode)}")


def _kind(mode: int) -> str:
    return "FIFO" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"


class HeldFolder:
    """Keeps the folder of the last file open, so that the system walks one name for the next instead of a path."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = root
        self._folder: str | None = None
        self._handle: FolderHandle | None = None

    def __enter__(self) -> "HeldFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._let_go()

    def open(self, path: str) -> tuple[int, State]:
        """A descriptor of the file at `path` below the root, to be read and closed, and its state before.

        Raises OSError, also for what is no regular file.
        """
        folder, _, name = path.rpartition("/")
        held = self._held(folder)
        status = held.stat(name)
        require_regular(status)
        return held.open(name), state_of(status)

    def state(self, path: str) -> State:
        """`UNKNOWN` for a file that cannot be looked at."""
        folder, _, name = path.rpartition("/")
        try:
            return state_of(self._held(folder).stat(name))
        except (OSError, ValueError):  # a name with half a pair of surrogates cannot be asked for
            return UNKNOWN

    def _held(self, folder: str) -> FolderHandle:
        if self._handle is None or folder != self._folder:
            self._let_go()
            self._handle = FolderHandle(os.path.join(self.root, folder))
            self._folder = folder
        return self._handle

    def _let_go(self) -> None:
        if self._handle is not None:
            self._handle.close()
            self._handle = None


def state_of(stat: os.stat_result) -> State:
    """The part of it that shows a change."""
    return stat.st_size, stat.st_mtime_ns
