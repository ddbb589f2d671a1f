"""Board JSON: one small file per picture, anywhere below `metadata/`."""

import os
from pathlib import Path

import numpy as np

from lun.data.index import Stamps, indexed
from lun.data.layouts.found import Found
from lun.data.layouts.spread import parsed_by_many
from lun.data.listing import is_left_behind, joined
from lun.data.metadata.record import add_record, json_reader
from lun.data.metadata.table import Rows, Table

FOLDER = "metadata"
_AT_ONCE = 1 << 15


def read_board(root: Path) -> Found | None:
    """Every `.json` file below `metadata/`; those that did not change since the last start are not read again."""
    files, stamps, skipped = json_files(root)
    if not files:
        return None
    table, reused = indexed(root, "board", stamps, lambda rows: _parsed(root, files, rows))
    words = f"board JSON, {len(files):,} files"
    return Found("board", words, table, skipped=skipped, reused=reused, paths_from_metadata=True)


def has_json(root: Path) -> bool:
    """Whether there is a `.json` file below `metadata/`."""
    return any(extension == ".json" for _, _, names in os.walk(root / FOLDER) for extension in map(_ending, names))


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def json_files(root: Path) -> tuple[list[str], Stamps, int]:
    """Paths below the root in sorted order, with size and time of each, and how many files of systems were skipped."""
    found: list[tuple[str, int, int]] = []
    waiting, skipped = [FOLDER], 0
    while waiting:
        folder = waiting.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                name = entry.name
                if is_left_behind(name):
                    skipped += 1
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(joined(folder, name))
                elif name.endswith((".json", ".JSON")):
                    stat = entry.stat()
                    found.append((f"{folder}/{name}", stat.st_size, stat.st_mtime_ns))
    found.sort()
    names = [name for name, _, _ in found]
    return names, Stamps.of(names, np.array([entry[1:] for entry in found], np.int64).reshape(-1, 2)), skipped


def _parsed(root: Path, files: list[str], rows: np.ndarray) -> Table:
    wanted = files if len(rows) == len(files) else [files[row] for row in rows.tolist()]
    return parsed_by_many(wanted, root, parse_files)


def parse_files(root: Path, files: list[str]) -> Table:
    """One row per file, in their order, broken ones included."""
    rows, read = Rows(), json_reader()
    top = f"{root}/"
    for file in files:
        try:
            record = read(_content(top + file))
        except (OSError, ValueError, RecursionError):
            record = None
        add_record(rows, record, file)
    return rows.table()


def _content(path: str) -> bytes:
    """All bytes of a small file, in as few system calls as can be."""
    file = os.open(path, os.O_RDONLY)
    try:
        content = os.read(file, _AT_ONCE)
        if len(content) < _AT_ONCE:
            return content
        parts = [content]
        while parts[-1]:
            parts.append(os.read(file, _AT_ONCE * 32))
        return b"".join(parts)
    finally:
        os.close(file)
