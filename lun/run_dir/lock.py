"""One process writes into a run directory: a lock that ends with its process, and that says who holds it."""

import errno
import json
import logging
import os
import shlex
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from ldm.errors import Fault
from ldm.operating_system import ask_to_end, lock_for_process, process_lives
from ldm.plain import read_json, record_of
from lun.program import as_started

log = logging.getLogger(__name__)

NAME = ".lock"
NOBODY = "nobody"
PATIENCE = 900.0
"""Seconds that a process which was asked to leave has for its last step, validation and save."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)


@dataclass(frozen=True)
class Holder:
    """Who writes into a run directory; `since` is an ISO time."""

    host: str
    pid: int
    since: str

    @classmethod
    def this(cls) -> "Holder":
        return cls(socket.gethostname(), os.getpid(), datetime.now().isoformat(timespec="seconds"))

    @property
    def here(self) -> bool:
        return self.host == socket.gethostname()

    def lives(self) -> bool:
        """Whether it may still be running; of other machines that is not known."""
        if not self.here:
            return True
        return self.pid != os.getpid() and process_lives(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, since {self.since}"


class RunLock:
    """The lock of the run directory `run`, or of another folder by a file of another `name`.

    It is a POSIX record lock on a file there: the system drops it when the process ends in whatever way, processes that
    it started do not inherit it, and NFS passes it on to other machines. Where a file system has no locks, what the
    file says of its holder has to do.
    """

    def __init__(self, run: Path, name: str = NAME) -> None:
        self.path = run / name
        self._file: int | None = None

    def take(self) -> Holder | None:
        """Take it; who has it, if somebody else does. Raises OSError where nothing can be written."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            lock_for_process(file)
        except OSError as error:
            holder = self.holder()
            unsupported = error.errno in _NO_LOCKS
            if not unsupported or (holder is not None and holder.lives()):
                os.close(file)
                return holder or Holder("an unknown machine", 0, "an unknown time")
        if not self._is_the_file(file):  # whoever had it has removed it since it was opened
            os.close(file)
            return self.take()
        os.ftruncate(file, 0)
        os.lseek(file, 0, os.SEEK_SET)
        os.write(file, json.dumps(asdict(Holder.this())).encode())
        self._file = file
        return None

    def give_back(self, removed: bool = False) -> None:
        """Let the next one write; the file stays, empty, unless it is to be `removed` (and the system can)."""
        if self._file is not None:
            with suppress(OSError):  # the disk may be gone; the lock goes with the file anyway
                os.ftruncate(self._file, 0)
                if removed:
                    self.path.unlink()
            os.close(self._file)
            self._file = None

    def _is_the_file(self, file: int) -> bool:
        try:
            return os.path.samestat(os.fstat(file), os.stat(self.path))
        except FileNotFoundError:
            return False

    def holder(self) -> Holder | None:
        """Who the file says holds it; None where it says nothing."""
        try:
            holder = record_of(Holder, read_json(self.path))
        except (OSError, ValueError):
            return None
        return holder if holder.pid > 0 else None  # a signal to 0 or -1 would go to many


@contextmanager
def one_writer(run: Path) -> Iterator[str]:
    """Hold the run's lock for a block. What the block gets is who else holds it, in words, or `NOBODY`."""
    lock = RunLock(run)
    holder = lock.take()
    try:
        yield str(holder or NOBODY)
    finally:
        lock.give_back()


def held_by_another(run: Path, holder: str) -> Fault:
    """RES06 for a run that another process trains."""
    return Fault(
        "RES06",
        f"{run} is being trained by another process",
        where=str(run / NAME),
        why=f"{holder}; two writers would replace each other's checkpoints",
        fix="wait for it, or let it save and stop, and go on from there:\n"
        + as_started(shlex.join(["python", "main.py", "-r", str(run), "-t", "--take-over"])),
    )


def take_over(run: Path, patience: float = PATIENCE, pause: float = 0.5) -> None:
    """Ask whoever trains `run` on this machine to save and stop, and wait until it has.

    Raises `Fault` RES06 where that is on another machine, or does not end in `patience` seconds.
    """
    lock = RunLock(run)
    holder = lock.take()
    lock.give_back()
    if holder is None:
        return
    if not holder.here or not holder.lives():
        raise Fault(
            "RES06",
            f"{run} is being trained on another machine",
            why=f"{holder}; it can be asked to stop there alone",
            fix=f"touch {run}/control/stop      (it saves and stops at its next step)",
        )
    log.info("asking %s to save and stop", holder)
    if not ask_to_end(holder.pid):
        (run / "control").mkdir(exist_ok=True)
        (run / "control" / "stop").touch()
    ends = time.monotonic() + patience
    while lock.take() is not None:
        if time.monotonic() >= ends:
            raise Fault("RES06", f"{holder} did not stop in {patience:.0f} s", fix=f"kill {holder.pid}, if it hangs")
        time.sleep(pause)
    lock.give_back()
