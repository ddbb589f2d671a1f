"""What lies beside a checkpoint and goes with it: its manifest, and the folder of its shards."""

import logging
import shutil
from pathlib import Path

import torch

from ldm.checkpoint.shards import FOLDER, Shards
from lun.callbacks.manifest import manifest_path

log = logging.getLogger(__name__)


def remove_checkpoint(path: Path) -> None:
    """Delete a checkpoint with its manifest and shards, where they are; never the file without what speaks of it."""
    manifest_path(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)
    if path.parent.is_dir():
        remove_unnamed(path.parent)


def remove_unnamed(directory: Path) -> None:
    """Delete the folders of shards in `directory` that no checkpoint there names.

    They are what a killed save left, or belong to a checkpoint that was replaced or deleted. A copy of a checkpoint
    under another name keeps its folder; so does one that cannot be read.
    """
    found = folders_of_shards(directory)
    if not found:
        return
    named: set[Path] = set()
    for file in directory.glob("*.ckpt"):
        if file.is_file():
            folders = _named_by(file)
            named |= {folder for folder in found if _is_of(folder, file)} if folders is None else folders
    for folder in found:
        if folder not in named:
            log.debug("removing %s, which no checkpoint names", folder)
            shutil.rmtree(folder, ignore_errors=True)


def size_on_disk(path: Path) -> int:
    """Bytes of a checkpoint and of all shards beside it."""
    beside = [folder for folder in folders_of_shards(path.parent) if _is_of(folder, path)]
    return path.stat().st_size + sum(file.stat().st_size for folder in beside for file in folder.iterdir())


def folders_of_shards(directory: Path) -> list[Path]:
    return [entry for entry in directory.iterdir() if FOLDER.fullmatch(entry.name) and entry.is_dir()]


def _is_of(folder: Path, file: Path) -> bool:
    match = FOLDER.fullmatch(folder.name)
    return match is not None and match["checkpoint"] == file.name


def _named_by(file: Path) -> set[Path] | None:
    """The folder that a checkpoint names, if any; None where it cannot be read."""
    try:
        shards = Shards.of(torch.load(file, map_location="cpu", weights_only=True, mmap=True), file)
    except Exception:  # damage can make the reader of zip files or pickles fail in any way
        return None
    return {shards.folder} if shards else set()
