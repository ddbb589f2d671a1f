"""The pictures that stand out by their loss, from `metrics/pictures.json`, with thumbnails that the run keeps."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ldm.errors import Fault
from ldm.files.replacing import replacing
from ldm.plain import read_json, record_of
from lun.pages.document import data_url

FILE = Path("metrics") / "pictures.json"
THUMBNAILS = Path("metrics") / "thumbnails"
SIDE = 96
SHOWN = 12
"""Of each list."""
SECONDS = 1.0
"""For making thumbnails each time a page is written."""
LINE = 64
"""Points of a course that are drawn."""
LARGEST = 100_000
"""Bytes of a thumbnail that is shown."""


@dataclass(frozen=True)
class ListedPicture:
    """One picture of the file; `excess` in standard deviations, `trace` as (step, loss)."""

    path: str
    split: str
    n: int
    loss: float
    excess: float
    first: float
    trace: list[list[float]]
    set: str | None = None

    @property
    def name(self) -> str:
        """Its file, without the folder."""
        return Path(self.path).name

    @property
    def line(self) -> str:
        """Its course as points of an SVG line of 96 by 24."""
        points = [point for point in self.trace if len(point) == 2 and all(map(math.isfinite, point))]
        if len(points) < 2:
            return ""
        (left, right), (low, high) = ((min(some), max(some)) for some in zip(*points, strict=True))
        across, up = 94 / ((right - left) or 1), 22 / ((high - low) or 1)
        return " ".join(f"{1 + (x - left) * across:.1f},{23 - (y - low) * up:.1f}" for x, y in points[:LINE])

    @property
    def thumbnail(self) -> Path:
        """Where its thumbnail lies below the run."""
        return THUMBNAILS / f"{hashlib.sha256(self.path.encode('utf-8', 'replace')).hexdigest()[:24]}.jpg"


@dataclass(frozen=True)
class PictureList:
    """Some pictures of one kind, each with the data URL of its thumbnail, if the run has kept one."""

    title: str
    about: str
    pictures: list[tuple[ListedPicture, str | None]]


def picture_lists(run: Path) -> tuple[list[PictureList], list[str]]:
    """The pictures of a run that stand out by their loss, and what is left out, in words."""
    pictures, broken = _read(run)
    lists = [
        PictureList(title, about, [(one, _kept(run, one)) for one in some])
        for title, about, some in _chosen(pictures)
        if some
    ]
    return lists, [f"{broken:,} pictures of {FILE} that cannot be read"] if broken else []


def keep_thumbnails(run: Path) -> None:
    """Make the thumbnails of the pictures that stand out, and remove those of others; what takes longer waits.

    For the process that trains alone: it reads these pictures anyway. Raises OSError where nothing can be written.
    """
    listed = [one for _, _, some in _chosen(_read(run)[0]) for one in some]
    if not listed:
        return
    from lun.data.images.decode import decode  # with torch, which a process that trains has

    ends = time.monotonic() + SECONDS
    wanted = {run / one.thumbnail: one for one in listed}
    for path, one in wanted.items():
        if not path.exists() and time.monotonic() < ends:
            with suppress(Fault, OSError):  # packed, gone or damaged: its name has to do
                picture = decode(one.path, (SIDE, SIDE))
                picture.thumbnail((SIDE, SIDE))
                with replacing(path) as file:
                    picture.save(file, "JPEG", quality=82)
    for path in (run / THUMBNAILS).glob("*.jpg"):
        if path not in wanted:
            path.unlink(missing_ok=True)


def _chosen(pictures: Sequence[ListedPicture]) -> list[tuple[str, str, list[ListedPicture]]]:
    """(title, what it means, pictures) of each list."""
    by_excess = sorted(pictures, key=lambda one: -one.excess)
    train = [one for one in by_excess if one.split == "train"]
    hard = [one for one in train if one.excess > 0]
    easy = [one for one in reversed(train) if one.excess <= 0]
    held_out = [one for one in by_excess if one.split == "val"]
    return [
        ("Hardest in training", "mislabelled, damaged, or unlike all others", hard[:SHOWN]),
        ("Easiest in training", "plain, or known by heart", easy[:SHOWN]),
        ("Hardest held out", "by the loss with noise that is the same each time", held_out[:SHOWN]),
    ]


def _read(run: Path) -> tuple[list[ListedPicture], int]:
    """The pictures of the file, and how many entries are none."""
    try:
        table: Any = read_json(run / FILE)
    except (OSError, ValueError):
        return [], 0
    rows = table.get("pictures") if isinstance(table, Mapping) else None
    rows = rows if isinstance(rows, list) else []
    read = [_picture(row) for row in rows]
    return [one for one in read if one], read.count(None)


def _picture(row: object) -> ListedPicture | None:
    known = ListedPicture.__dataclass_fields__
    try:
        rows = {name: value for name, value in row.items() if name in known} if isinstance(row, Mapping) else row
        return record_of(ListedPicture, rows)
    except ValueError:
        return None


def _kept(run: Path, one: ListedPicture) -> str | None:
    path = run / one.thumbnail
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            return None
        with Image.open(path) as picture:
            picture.thumbnail((SIDE, SIDE))
            return data_url(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
