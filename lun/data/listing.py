"""What lies in one folder, told by names alone: images, captions, folders, the rest."""

import os
from collections import Counter
from dataclasses import dataclass, field

EXTENSIONS = ("png", "jpg", "jpeg", "bmp", "webp")

CAPTION_FOLDER = {"img": "txt", "images": "captions"}
"""Folder for images -> the folder beside it for their captions."""

_OF_THE_SYSTEM = {"thumbs.db", "desktop.ini"}


@dataclass(frozen=True)
class Listing:
    """Names in one folder; hidden files and those that systems leave behind are not in it."""

    images: list[str] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    """stem -> name of the text file"""
    folders: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    """how many files of each other extension, with its dot"""

    @property
    def is_empty(self) -> bool:
        return not (self.images or self.captions or self.folders or self.others)


def stem(name: str) -> str:
    """Everything before the last dot: `a.b.png` gives `a.b`."""
    return name.rpartition(".")[0]


def listing(folder: str | os.PathLike[str]) -> Listing:
    """The names in `folder`, images and folders sorted; opens no file. Raises OSError if it cannot be listed."""
    found = Listing()
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(".") and entry.name.lower() not in _OF_THE_SYSTEM:
                _sort_in(found, entry)
    found.images.sort()
    found.folders.sort()
    return found


def _sort_in(found: Listing, entry: os.DirEntry[str]) -> None:
    name = entry.name
    if entry.is_dir():
        found.folders.append(name)
        return
    extension = name.rpartition(".")[2].lower() if "." in name else ""
    if extension in EXTENSIONS:
        found.images.append(name)
    elif extension == "txt":
        found.captions[stem(name)] = name
    else:
        found.others["." + extension if extension else "without extension"] += 1
