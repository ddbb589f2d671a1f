"""Folders that one process writes into: taken before anything is written, so that two never share one."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ldm.errors import Fault
from lun.run_dir.lock import RunLock

MARK = ".writing"
_taken: set[Path] = set()
"""By this process, whose threads a lock of the process does not keep apart."""


def claim_folder(wanted: Path, flag: str) -> Path:
    """Make the folder `wanted`, or `wanted-2`, `wanted-3`, ... where another has it; all folders above are made.

    `flag` is the option that names another place. Raises `Fault` DSK01.
    """
    try:
        wanted.parent.mkdir(parents=True, exist_ok=True)
        for number in range(1, 1000):
            path = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
            with suppress(FileExistsError):
                path.mkdir()
                return path
        raise FileExistsError(f"{wanted} and 998 others exist")
    except OSError as error:
        why = error.strerror or str(error)
        fix = f"{flag} /a/place/that/can/be/written"
        raise Fault("DSK01", f"cannot make the folder {wanted}: {why}", where=flag, fix=fix) from error


@contextmanager
def writing_into(folder: Path, flag: str) -> Iterator[Path]:
    """A folder that a person named, for this block alone while it runs; it is made where it is not there.

    One that a process was killed in is free again: the lock ended with it.

    Raises `Fault` CLI04 where another process writes into it, DSK01 where it cannot be made.
    """
    lock, place = RunLock(folder, MARK), folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        holder = "this process" if place in _taken else lock.take()
    except FileExistsError as error:
        raise Fault("CLI04", f"{folder} is a file", where=flag, fix=f"{flag} ANOTHER_DIR") from error
    except OSError as error:
        raise Fault("DSK01", f"cannot write into {folder}: {error.strerror or error}", where=flag) from error
    if holder is not None:
        what, fix = f"another process writes into {folder}", f"wait for it, or {flag} ANOTHER_DIR"
        raise Fault("CLI04", what, where=flag, why=str(holder), fix=fix)
    _taken.add(place)
    try:
        yield folder
    finally:
        _taken.discard(place)
        lock.give_back(removed=True)
