"""What an export wrote into a folder, by the list that it left there."""

from pathlib import Path

from ldm.plain import read_json

MARK = "lun.json"
"""In a folder that was written here: the names of its files."""


def files_in(folder: Path) -> set[str]:
    """All that lies in a folder but the folders, by the path below it."""
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_symlink() or not file.is_dir()}


def listed_files(folder: Path) -> set[str] | None:
    """What an export says that it wrote there, the list itself left out; None for a folder that it did not write."""
    try:
        listed = set(read_json(folder / MARK)["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return listed if all(isinstance(name, str) for name in listed) else None
