"""What lies beside a checkpoint and goes with it: its manifest, and the folder of its shards."""

import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path

from ldm.errors import Fault
from ldm.files.rank_shards import FOLDER, RankShards
from ldm.files.read import read_torch
from lun.checkpoints.manifest import Manifest, manifest_path

log = logging.getLogger(__name__)


KEPT = "kept"
"""In a folder that a checkpoint came to name: if it is named no longer, somebody moved that file, so it stays."""


def remove_checkpoint(path: Path) -> None:
    """Delete a checkpoint with its manifest and shards, where they are; never the file without what speaks of it."""
    let_go(path)
    manifest_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        remove_unnamed(path.parent)


def keep(shards: RankShards) -> None:
    """Mark the folder of shards that a checkpoint in its place names."""
    with suppress(OSError):  # without it they are only less safe from somebody who moves the file without them
        (shards.folder / KEPT).touch()


def let_go(path: Path) -> None:
    """Before the checkpoint at `path` is deleted or replaced: its shards may go with it."""
    if path.is_file() and folders_of_shards(path.parent):
        for folder in _named_by(path) or ():
            (folder / KEPT).unlink(missing_ok=True)


def set_aside(path: Path, held: tuple[int, int], step: int, attempt: int) -> Path | None:
    """Give the checkpoint at `path` another name where it holds later steps of another attempt than what replaces it.

    A run that goes on from an older file is a branch, and what it saves may have the names of files that it left
    behind. `held` is (step, attempt) of the file. Returns its new name, `last-step30-attempt1.ckpt`, or None where
    there was nothing to keep. The file has one of its names at every moment, where the disk can give it two.
    """
    if held[0] <= step or held[1] == attempt:
        return None
    kept = _unused(path.with_name(f"{path.stem}-step{held[0]}-attempt{held[1]}{path.suffix}"))
    if manifest := Manifest.read(path):
        manifest.write(kept)
    try:
        os.link(path, kept)
    except OSError:  # no second names on this disk
        os.rename(path, kept)
    log.info("kept %s (step %d) as %s", path.name, held[0], kept.name)
    return kept


def _unused(path: Path) -> Path:
    """`path`, or the first of `-2`, `-3`, ... that no checkpoint and no manifest has."""
    number, free = 1, path
    while free.exists() or manifest_path(free).exists():
        number += 1
        free = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return free


def remove_unnamed(directory: Path, of: str | None = None) -> None:
    """Delete the folders of shards in `directory` that no checkpoint there names; of the file `of` alone, if given.

    They are what a killed save left, or belong to a checkpoint that was replaced or deleted by this program: what
    somebody moved away, copied under another name or damaged keeps its folder.
    """
    left = {folder for folder in folders_of_shards(directory) if of in (None, _owner(folder))}
    left = {folder for folder in left if not (folder / KEPT).exists()}
    owners = {_owner(folder) for folder in left}
    for file in sorted(directory.glob("*.ckpt"), key=lambda file: file.name not in owners):
        if not left:
            return
        if file.is_file():
            named = _named_by(file)
            left -= {folder for folder in left if _owner(folder) == file.name} if named is None else named
    for folder in left:
        log.debug("removing %s, which no checkpoint names", folder)
        shutil.rmtree(folder, ignore_errors=True)


def size_on_disk(path: Path) -> int:
    """Bytes of a checkpoint and of all shards beside it."""
    beside = [folder for folder in folders_of_shards(path.parent) if _owner(folder) == path.name]
    return path.stat().st_size + sum(file.stat().st_size for folder in beside for file in folder.iterdir())


def folders_of_shards(directory: Path) -> list[Path]:
    return [entry for entry in directory.iterdir() if FOLDER.fullmatch(entry.name) and entry.is_dir()]


def _owner(folder: Path) -> str:
    """The name of the checkpoint for which a folder was made."""
    match = FOLDER.fullmatch(folder.name)
    return match["checkpoint"] if match else ""


def _named_by(file: Path) -> set[Path] | None:
    """The folder that a checkpoint names, if any; None where it cannot be read."""
    try:
        shards = RankShards.of(read_torch(file), file)
    except (Fault, OSError):
        return None
    return {shards.folder} if shards else set()
