"""Board JSON: one small file per picture, anywhere below `metadata/`."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lun.data.index.listing import LEAVES, Tree, is_left_behind, joined, leads_out
from lun.data.index.looked_once import as_column, from_column, one_look
from lun.data.index.one_reader import one_reader
from lun.data.index.sizes import file_states
from lun.data.index.store import Stamps, index_path, indexed, is_stored, store
from lun.data.layouts.folder_contents import FolderContents
from lun.data.layouts.spread import read_by_many
from lun.data.metadata.picture_table import Table, concatenated

FOLDER = "metadata"


def read_board(tree: Tree) -> FolderContents | None:
    """Every `.json` file below `metadata/`; those that did not change since the last start are not read again."""
    if FOLDER not in tree.top.folders:
        return None
    root = tree.root
    with one_look(root, "descriptions", lambda: repr(tree.real_root).encode("utf-8", "surrogatepass")) as look:
        found = json_files(root, tree.real_root) if look.found is None else from_column(look.found)
        look.seen = lambda: as_column(found)
    files, unread, skipped = found
    if not files:
        return None
    table, reused = _known(root, files) if is_stored(root, "board") else _first(root, files)
    words = f"board JSON, {len(files):,} files"
    links = tuple((path, reason) for path, reason in unread)
    return FolderContents("board", words, table, "", skipped, reused, paths_from_metadata=True, unread=links)


def has_json(root: Path) -> bool:
    """Whether there is a `.json` file below `metadata/`."""
    with one_look(root, "board", lambda: b"") as look:
        found = _has_json(root) if look.found is None else from_column(look.found)
        look.seen = lambda: as_column(found)
    return bool(found)


def _has_json(root: Path) -> bool:
    return any(extension == ".json" for _, _, names in os.walk(root / FOLDER) for extension in map(_ending, names))


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def json_files(root: Path, real_root: str | None) -> tuple[list[str], list[tuple[str, str]], int]:
    """Paths below the root in sorted order, (path, reason) of links out of it, and how many files were skipped."""
    files: list[str] = []
    unread: list[tuple[str, str]] = []
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
                    if entry.is_symlink() and _leaves(entry.path, real_root):
                        unread.append((f"{folder}/{name}", LEAVES))
                    else:
                        files.append(f"{folder}/{name}")
    files.sort()
    return files, unread, skipped


def _leaves(link: str, real_root: str | None) -> bool:
    return real_root is not None and os.path.exists(link) and leads_out(link, real_root)


def _first(root: Path, files: list[str]) -> tuple[Table, bool]:
    """All files are opened, so that none has to be looked at before; by one process of a machine for all."""
    with one_reader(index_path(root, "board")):
        if not is_stored(root, "board"):
            table, states = _read(root, files)
            store(root, "board", Stamps.of(files, states), table)
            return table, False
    return _known(root, files)


def _known(root: Path, files: list[str]) -> tuple[Table, bool]:
    def parse(rows: NDArray[np.int64]) -> Table:
        return _read(root, [files[row] for row in rows.tolist()])[0]

    return indexed(root, "board", Stamps.of(files, file_states(root, files)), parse)


def _read(root: Path, files: list[str]) -> tuple[Table, NDArray[np.int64]]:
    """A row for each file, broken ones included, and (n, 2) in which state each was when it was opened."""
    parts = read_by_many(str(root), files)
    states = np.concatenate([np.array(part.states, np.int64) for part in parts]).reshape(-1, 2)
    return concatenated([Table.of(part.rows) for part in parts]), states
