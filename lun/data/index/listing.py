"""What lies in a folder, by names alone: images, captions, folders, the rest."""

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ldm.errors import Fault

EXTENSIONS = ("png", "jpg", "jpeg", "bmp", "webp", "avif", "tif", "tiff", "gif")

CAPTION_EXTENSIONS = ("txt", "caption")
"""Endings of caption files; the first wins where a picture has both."""

CAPTION_FOLDER = {"img": "txt", "images": "captions"}
"""Folder for images -> the folder beside it for their captions."""

LEAVES = "link that leads out of the folder"
NOWHERE = "link that leads nowhere"
SPECIAL = "neither a file nor a folder"

_OF_THE_SYSTEM = {"thumbs.db", "desktop.ini", "@eadir", "__macosx", "$recycle.bin"}


@dataclass
class Listing:
    """Names in one folder; hidden files and those that systems leave behind are only counted."""

    images: list[str] = field(default_factory=list)
    captions: dict[str, str] = field(default_factory=dict)
    """stem, with its accents composed -> name of the text file"""
    folders: list[str] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)
    """how many files of each other extension, with its dot"""
    names: list[str] = field(default_factory=list)
    """of those other files"""
    skipped: int = 0
    """hidden files and those that systems leave behind"""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """(name, reason) of what is not looked into"""

    @classmethod
    def of_plain(cls, plain: Mapping[str, Any]) -> "Listing":
        """From what `to_plain` gave."""
        unread = [(name, reason) for name, reason in plain["unread"]]
        return cls(**{**plain, "others": Counter(plain["others"]), "unread": unread})

    def to_plain(self) -> dict[str, Any]:
        """As plain JSON."""
        return vars(self)

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


def composed(name: str) -> str:
    """A name as most systems write it (NFC): others take accents apart, and two spellings are one name."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def leads_out(path: str | os.PathLike[str], real_root: str) -> bool:
    """Whether what `path` is in truth lies outside the folder `real_root`, which has no links in its own path."""
    real = os.path.realpath(path)
    return real != real_root and not real.startswith(real_root.rstrip(os.sep) + os.sep)


def listing(
    folder: str | os.PathLike[str], real_root: str | None = None, endings: Sequence[str] = CAPTION_EXTENSIONS
) -> Listing:
    """The names in `folder`, images and folders sorted; opens no file. Raises OSError if it cannot be listed.

    With `real_root`, links that lead out of that folder are unread. `endings` are those of captions, the first wins.
    """
    result = Listing()
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_left_behind(entry.name):
                result.skipped += 1
            elif reason := _unread(entry, real_root):
                result.unread.append((entry.name, reason))
            else:
                _sort_in(result, entry, endings)
    result.images.sort()
    result.folders.sort()
    return result


def _unread(entry: os.DirEntry[str], real_root: str | None) -> str | None:
    """Why it is neither a file nor a folder to look into; for most entries the listing itself says that it is one."""
    try:
        if entry.is_file() or entry.is_dir():
            is_out = entry.is_symlink() and real_root is not None and leads_out(entry.path, real_root)
            return LEAVES if is_out else None
        return SPECIAL if os.path.exists(entry.path) else NOWHERE
    except OSError:  # a link to itself
        return NOWHERE


class Tree:
    """A data folder as names: each of its folders is listed once, and only if asked for.

    follow_links  whether links may lead out of it
    masked        whether `mask/` holds masks in any case; else it does if all its names are those of pictures
    endings       of caption files
    seen          folder -> what lies in it, as far as that is known beforehand; the others that are asked for join it
    """

    MASKS = "mask"

    def __init__(
        self,
        root: Path,
        follow_links: bool = False,
        masked: bool = False,
        endings: Sequence[str] = CAPTION_EXTENSIONS,
        seen: dict[str, Listing] | None = None,
    ) -> None:
        self.root = root
        self.seen = {} if seen is None else seen
        self.endings = endings
        self.real_root = None if follow_links else os.path.realpath(root)
        self._listed: dict[str, Listing] = {}
        self.masks = self.MASKS in self[""].folders and (masked or self._holds_masks())
        if self.masks:
            others = [name for name in self[""].folders if name != self.MASKS]
            self._listed[""] = replace(self[""], folders=others)

    def __getitem__(self, folder: str) -> Listing:
        """What lies in `folder`, '' being the root. Raises `Fault` DAT01 if it cannot be listed."""
        if folder not in self._listed:
            try:
                if folder not in self.seen:
                    self.seen[folder] = listing(os.path.join(self.root, folder), self.real_root, self.endings)
                self._listed[folder] = self.seen[folder]
            except OSError as error:
                where = self.root / folder
                raise Fault(
                    "DAT01", f"data folder cannot be read: {where}", why=error.strerror or str(error)
                ) from error
        return self._listed[folder]

    @property
    def top(self) -> Listing:
        return self[""]

    def walk(self, below: str = "") -> Iterator[tuple[str, Listing]]:
        """Every folder from `below` on with what lies in it, sorted, each real folder once."""
        seen: set[str] = set()
        waiting = [below]
        while waiting:
            folder = waiting.pop()
            real = os.path.realpath(os.path.join(self.root, folder))
            if real not in seen:
                seen.add(real)
                yield folder, self[folder]
                waiting += [joined(folder, name) for name in reversed(self[folder].folders)]

    def unread(self) -> list[tuple[str, str]]:
        """(path, reason) of what was met and not looked into."""
        return [(joined(folder, name), why) for folder, inside in self._listed.items() for name, why in inside.unread]

    def _holds_masks(self) -> bool:
        """Whether every picture below `mask/` is named as one in the root, in `img/` or in `images/`."""
        holding = [(folder, inside) for folder, inside in self.walk(self.MASKS) if inside.images]

        def beside(place: str) -> bool:
            return all(
                _stems(inside) <= self._stems("/".join(filter(None, (place, folder.partition("/")[2]))))
                for folder, inside in holding
            )

        return bool(holding) and any(map(beside, ("", *CAPTION_FOLDER)))

    def _stems(self, folder: str) -> set[str]:
        return _stems(self[folder]) if (self.root / folder).is_dir() else set()


def _stems(inside: Listing) -> set[str]:
    return {composed(stem(image)) for image in inside.images}


def _sort_in(result: Listing, entry: os.DirEntry[str], endings: Sequence[str]) -> None:
    name = entry.name
    if entry.is_dir():
        result.folders.append(name)
        return
    kind = extension(name)
    if kind in EXTENSIONS:
        result.images.append(name)
    elif kind in endings:
        own = composed(stem(name))
        before = result.captions.get(own)
        if before is None or endings.index(kind) < endings.index(extension(before)):
            result.captions[own] = name
    else:
        result.others["." + kind if kind else "without extension"] += 1
        result.names.append(name)
