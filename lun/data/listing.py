"""What lies in one folder, told by names alone: images, captions, folders, the rest."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

EXTENSIONS = ("png", "jpg", "jpeg", "bmp", "webp", "avif", "tif", "tiff", "gif")

CAPTION_EXTENSIONS = ("txt", "caption")
"""The first wins where a picture has both."""

CAPTION_FOLDER = {"img": "txt", "images": "captions"}
"""Folder for images -> the folder beside it for their captions."""

_OF_THE_SYSTEM = {"thumbs.db", "desktop.ini", "@eadir", "__macosx", "$recycle.bin"}


@dataclass
class Listing:
    """Names in one folder; hidden files and those that systems leave behind are only counted."""

    images: list[str] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    """stem -> name of the text file"""
    folders: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    """how many files of each other extension, with its dot"""
    names: list[str] = field(default_factory=list)
    """of those other files"""
    skipped: int = 0
    """hidden files and those that systems leave behind"""

    @property
    def is_empty(self) -> bool:
        return not (self.images or self.captions or self.folders or self.others)


def stem(name: str) -> str:
    """Everything before the last dot: `a.b.png` gives `a.b`."""
    return name.rpartition(".")[0]


def extension(name: str) -> str:
    """What follows the last dot, in lower case; '' without a dot."""
    return name.rpartition(".")[2].lower() if "." in name else ""


def joined(folder: str, name: str) -> str:
    """`folder/name`, where '' is the root."""
    return f"{folder}/{name}" if folder else name


def is_left_behind(name: str) -> bool:
    """Whether a file or folder is hidden or made by a system rather than a person."""
    return name.startswith(".") or name.lower() in _OF_THE_SYSTEM


def listing(folder: str | os.PathLike[str]) -> Listing:
    """The names in `folder`, images and folders sorted; opens no file. Raises OSError if it cannot be listed."""
    found = Listing()
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_left_behind(entry.name):
                found.skipped += 1
            else:
                _sort_in(found, entry)
    found.images.sort()
    found.folders.sort()
    return found


def walk(root: str | os.PathLike[str], below: str = "") -> Iterator[tuple[str, Listing]]:
    """Every folder from `below` on with what lies in it, sorted, each real folder once. Raises OSError."""
    seen: set[str] = set()
    waiting = [below]
    while waiting:
        folder = waiting.pop()
        place = os.path.join(root, folder)
        real = os.path.realpath(place)
        if real in seen:
            continue
        seen.add(real)
        found = listing(place)
        yield folder, found
        waiting += [joined(folder, name) for name in reversed(found.folders)]


def _sort_in(found: Listing, entry: os.DirEntry[str]) -> None:
    name = entry.name
    if entry.is_dir():
        found.folders.append(name)
        return
    kind = extension(name)
    if kind in EXTENSIONS:
        found.images.append(name)
    elif kind in CAPTION_EXTENSIONS:
        if kind == CAPTION_EXTENSIONS[0] or stem(name) not in found.captions:
            found.captions[stem(name)] = name
    else:
        found.others["." + kind if kind else "without extension"] += 1
        found.names.append(name)
