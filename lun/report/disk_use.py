"""What a run keeps on the disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MOST = 20_000
"""Files that are looked at."""
CHECKPOINTS = "checkpoints"


@dataclass(frozen=True)
class FileUse:
    """One file, or a folder with all that it holds; `files` is None for a file. `changed` in seconds since 1970."""

    name: str
    size: int
    changed: float
    files: int | None = None


def disk_use(run: Path) -> tuple[list[FileUse], list[str]]:
    """Every checkpoint, and the run's other files and folders, the largest first; and what was not looked at, in words.

    Links are not followed, but for `checkpoints`, which may lie on another disk.
    """
    found: dict[str, FileUse] = {}
    for count, entry in enumerate(_files(run, run, through=CHECKPOINTS)):
        if count == MOST:
            return _largest_first(found), [f"files past the first {MOST:,}"]
        _add(found, run, entry)
    return _largest_first(found), []


def _largest_first(found: dict[str, FileUse]) -> list[FileUse]:
    return sorted(found.values(), key=lambda use: (-use.size, use.name))


def _files(folder: Path, run: Path, through: str) -> Iterator[os.DirEntry[str]]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            inside = entry.is_dir(follow_symlinks=folder == run and entry.name == through)
        except OSError:
            continue
        if inside:
            yield from _files(folder / entry.name, run, through)
        else:
            yield entry


def _add(found: dict[str, FileUse], run: Path, entry: os.DirEntry[str]) -> None:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:  # gone in the meantime
        return
    parts = Path(entry.path).relative_to(run).parts
    if parts[0] == CHECKPOINTS or len(parts) == 1:
        name = "/".join(parts)
        found[name] = FileUse(name, status.st_size, status.st_mtime)
        return
    name = parts[0] + "/"
    so_far = found.get(name, FileUse(name, 0, 0.0, 0))
    files, changed = (so_far.files or 0) + 1, max(so_far.changed, status.st_mtime)
    found[name] = FileUse(name, so_far.size + status.st_size, changed, files)
