"""What Linux, macOS and Windows do differently, in one place: no other module calls what one of them lacks.

Linux is what the program is tested on. The branches for Windows are tested with the POSIX calls taken away; none has
run on a real Windows or Mac yet.
"""

import ctypes
import errno
import importlib
import os
import signal
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

_POLL_SECONDS = 0.05
_LOCKED_BYTE = 1 << 30
"""On Windows nobody else may read what is locked, so that a byte behind all content is."""
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG, from linux/prctl.h
_QUERY_LIMITED, _STILL_ACTIVE = 0x1000, 259  # of processthreadsapi.h
_JUNCTION = 0xA0000003  # IO_REPARSE_TAG_MOUNT_POINT of winnt.h

STOPPING_SIGNALS = {
    getattr(signal, name): name for name in ("SIGINT", "SIGTERM", "SIGUSR1", "SIGHUP") if hasattr(signal, name)
}
"""Signals that ask a training to save and stop, as far as the system has them: number -> name."""


# Locks


def lock_open_file(file: int | IO[Any], wait: bool = True) -> None:
    """Lock a file for whoever opened it, threads of this process included; closing it gives the lock back.

    Raises BlockingIOError where another has it and `wait` is false, other OSErrors where there are no locks.
    """
    _lock(file, "flock", wait)


def lock_for_process(file: int | IO[Any]) -> None:
    """Lock a file for this process, as NFS passes it on; the end of the process gives it back, whatever that is.

    Raises BlockingIOError where another process has it, other OSErrors where there are no locks.
    """
    _lock(file, "lockf", wait=False)


def _lock(file: int | IO[Any], kind: str, wait: bool) -> None:
    try:
        posix: Any = importlib.import_module("fcntl")
    except ImportError:
        _lock_on_windows(file if isinstance(file, int) else file.fileno(), wait)
        return
    try:
        getattr(posix, kind)(file, posix.LOCK_EX | (0 if wait else posix.LOCK_NB))
    except PermissionError as error:  # what POSIX allows `lockf` to say of a lock that is held
        raise BlockingIOError(error.errno, error.strerror) from error


def _lock_on_windows(file: int, wait: bool) -> None:
    windows: Any = importlib.import_module("msvcrt")
    place = os.lseek(file, 0, os.SEEK_CUR)
    try:
        while True:
            os.lseek(file, _LOCKED_BYTE, os.SEEK_SET)
            try:
                return windows.locking(file, windows.LK_NBLCK, 1)
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EDEADLK):
                    raise
                if not wait:
                    raise BlockingIOError(errno.EAGAIN, "another process has the lock") from error
            time.sleep(_POLL_SECONDS)
    finally:
        os.lseek(file, place, os.SEEK_SET)


# Processes


def process_lives(pid: int) -> bool:
    """Whether there is a process of this number on this machine."""
    if sys.platform == "win32":  # where `os.kill` ends what it asks about
        return _lives_on_windows(pid)
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _lives_on_windows(pid: int) -> bool:
    kernel = ctypes.windll.kernel32  # type: ignore[attr-defined, unused-ignore]
    handle = kernel.OpenProcess(_QUERY_LIMITED, False, pid)
    if not handle:
        return False
    try:
        code = ctypes.c_ulong()
        return bool(kernel.GetExitCodeProcess(handle, ctypes.byref(code))) and code.value == _STILL_ACTIVE
    finally:
        kernel.CloseHandle(handle)


def ask_to_end(pid: int) -> bool:
    """Send SIGTERM; False on Windows, where that would end the process before it could save."""
    if sys.platform == "win32":
        return False
    os.kill(pid, signal.SIGTERM)
    return True


def can_interrupt_waits() -> bool:
    """Whether a signal gets a thread out of a wait within the system: not on Windows."""
    return hasattr(signal, "pthread_kill")


def interrupt_thread(thread: int, number: int) -> None:
    """Send the signal `number` to a thread, by its identifier; only where `can_interrupt_waits`."""
    signal.pthread_kill(thread, number)


def end_with_parent() -> None:
    """Have the system kill this process as soon as its parent ends, where it can: on Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)


def around_fork(before: Callable[[], Any], after: Callable[[], Any]) -> None:
    """Call `before` and `after` around every fork, `after` in both processes; nothing where processes do not fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after, after_in_child=after)


# The machine


def usable_cpus() -> int:
    """CPUs that this process may run on, or where that is not known all of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def load_average() -> float | None:
    """Processes that ran or wanted to, over the last minute; None where it is not known."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else None


def memory_bytes() -> int | None:
    """Main memory of this machine; None where it is not known."""
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return None


def resident_bytes() -> int | None:
    """Main memory that this process holds; where the system does not say, the most that it held; None on Windows."""
    try:
        resource: Any = importlib.import_module("resource")
    except ImportError:
        return None
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * int(resource.getpagesize())
    peak = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    return peak if sys.platform == "darwin" else peak * 1024


def host_name() -> str:
    """What this machine is called."""
    return socket.gethostname()


# Files

_seeking = threading.Lock()
_NAMES_FROM_FOLDERS = os.stat in os.supports_dir_fd


def open_to_read(path: str | os.PathLike[str], follow: bool = True) -> int:
    """A descriptor for the bytes of a file, which processes that are started do not inherit.

    follow  a link at its end; without, that is an OSError where the system can refuse it
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0)
    return os.open(path, flags if follow else flags | getattr(os, "O_NOFOLLOW", 0))


def read_at(file: int, count: int, first: int) -> bytes:
    """At most `count` bytes of an open file from byte `first` on, whoever else reads it in other threads."""
    if hasattr(os, "pread"):
        return os.pread(file, count, first)
    with _seeking:
        os.lseek(file, first, os.SEEK_SET)
        return os.read(file, count)


def open_folder(path: Path) -> int | None:
    """A descriptor of a folder, so that what was moved there can be flushed; None where folders cannot be opened."""
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
    except OSError:  # Windows
        return None


class FolderHandle:
    """A folder whose files are named from it, so that the system walks one name instead of a path. Raises OSError.

    On Windows, which has no such calls, it is the folder's path.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        # O_PATH: Linux lets one into folders that may not be listed.
        self._handle = os.open(path, getattr(os, "O_PATH", os.O_RDONLY)) if _NAMES_FROM_FOLDERS else None

    def stat(self, name: str) -> os.stat_result:
        if self._handle is None:
            return os.stat(os.path.join(self._path, name))
        return os.stat(name, dir_fd=self._handle)

    def open(self, name: str) -> int:
        """A descriptor to read the file `name`."""
        if self._handle is None:
            return open_to_read(os.path.join(self._path, name))
        return os.open(name, os.O_RDONLY, dir_fd=self._handle)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


def make_folder_link(link: Path, folder: str) -> None:
    """Make `link`, a name that nothing has, lead to `folder` beside it. Raises OSError.

    A symbolic link; on Windows, where these take a privilege, a junction, which paths lead through likewise.
    """
    if sys.platform == "win32":
        windows: Any = importlib.import_module("_winapi")
        windows.CreateJunction(str((link.parent / folder).resolve()), str(link))
    else:
        link.symlink_to(folder, target_is_directory=True)


def is_folder_link(path: Path) -> bool:
    """Whether `path` is a link or a junction."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", 0) == _JUNCTION


def make_room_for_link(link: Path) -> None:
    """On Windows remove an earlier junction, over which nothing can be moved."""
    if sys.platform == "win32":
        with suppress(FileNotFoundError):
            os.rmdir(link)


def is_this_users(status: os.stat_result) -> bool:
    """Whether a file belongs to this user. Windows does not say; there they are closed to others."""
    return status.st_uid == os.geteuid() if hasattr(os, "geteuid") else True
