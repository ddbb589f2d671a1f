"""Files that are whole or absent: written beside their place, flushed to disk, moved over the old one.

A reader, a crash or a full disk never meets half a file: until the move the old one is there as it was. What a killed
process leaves behind is hidden and named `.NAME.tmp-PID-TOKEN`, so that `is_leftover` recognises it.
"""

import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from ldm.operating_system import make_folder_link, make_room_for_link, open_folder, process_lives

_TEMPORARY = re.compile(r"\..+\.tmp-(\d+)(?:-\w+)?")


@contextmanager
def replacing(path: Path, private: bool = False) -> Iterator[BinaryIO]:
    """A file to write that takes the name `path` when the block ends well, and is gone when it does not.

    private  nobody but this user may read it (mode 0600); otherwise the umask decides. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(path) as temporary:
        mode = 0o600 if private else 0o666
        with open(os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            flush_file(file)
        move_into_place(temporary, path)


def replace_text(path: Path, text: str) -> None:
    """Write `text` (UTF-8) to `path`, whole or not at all. Raises OSError."""
    with replacing(path) as file:
        file.write(text.encode("utf-8"))


def replace_link(path: Path, target: str) -> None:
    """Make `path` a link to the folder `target` beside it, in place of an earlier one. Raises OSError."""
    with unfinished(path) as temporary:
        make_folder_link(temporary, target)
        make_room_for_link(path)
        os.replace(temporary, path)


@contextmanager
def replacing_folder(path: Path) -> Iterator[Path]:
    """A folder to fill that takes the place of `path` when the block ends well, and is gone when it does not.

    No system call replaces a folder that holds something, so the old one steps aside for a moment.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished(path) as temporary, unfinished(path) as former:
        temporary.mkdir()
        yield temporary
        if path.exists():
            os.replace(path, former)
        try:
            os.replace(temporary, path)
        except OSError:
            if former.exists():
                os.replace(former, path)
            raise


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A hidden name beside `path` that nothing has; whatever has it when the block ends is removed."""
    temporary = temporary_name(path)
    try:
        yield temporary
    finally:
        if temporary.is_dir() and not temporary.is_symlink():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            temporary.unlink(missing_ok=True)


def temporary_name(path: Path) -> Path:
    """A hidden name beside `path` that names its writer; no other process or thread is given the same."""
    return path.with_name(f".{path.name}.tmp-{os.getpid()}-{secrets.token_hex(4)}")


def flush_file(file: IO[bytes]) -> None:
    """Have everything that was written to `file` on the disk. Raises OSError."""
    file.flush()
    os.fsync(file.fileno())


def move_into_place(temporary: Path, path: Path) -> None:
    """Give a finished, flushed file its name, in place of the file that has it, so that a power loss keeps it."""
    os.replace(temporary, path)
    flush_directory(path.parent)


def flush_directory(directory: Path) -> None:
    """Make what was moved there survive a power loss, where the system can."""
    descriptor = open_folder(directory)
    if descriptor is None:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_leftover(path: Path) -> bool:
    """Whether `path` was being written by a process of this machine that is dead.

    One with our own number is of an earlier process, so nobody may ask while this one writes there.
    """
    match = _TEMPORARY.fullmatch(path.name)
    return match is not None and (int(match[1]) == os.getpid() or not process_lives(int(match[1])))
