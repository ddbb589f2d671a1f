"""The pictures that stand out, from `metrics/pictures.json`, with thumbnails that the run keeps."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from ldm.errors import Fault
from ldm.files.replacing import replacing
from ldm.plain import read_json, record_of
from lun.pages.document import data_url
from lun.report.memorised import fallen_since, held_out_rise
from lun.report.near_samples import NearSample, near_samples

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


@dataclass(frozen=True)
class PictureList:
    """Some pictures of one kind, each with the data URL of its thumbnail, if the run has kept one."""

    title: str
    about: str
    pictures: list[tuple[ListedPicture, str | None]]


@dataclass(frozen=True)
class ShownFile:
    """A picture by its file alone; `url` of its thumbnail, if the run has kept one."""

    path: str
    url: str | None

    @property
    def name(self) -> str:
        """Its file, without the folder."""
        return Path(self.path).name


@dataclass(frozen=True)
class StandingOut:
    """The pictures of a run that stand out.

    lists     by their loss
    copies    held out and all the same like one that is trained on: both, the first `SHOWN` of `count`
    near      samples nearest to one that is trained on, with the URLs of both
    left_out  in words
    """

    lists: list[PictureList]
    copies: list[tuple[ShownFile, ShownFile]]
    count: int
    near: list[tuple[NearSample, str | None, str | None]]
    left_out: list[str]

    @classmethod
    def of(cls, run: Path) -> StandingOut:
        """From the run's directory alone."""
        read = _PicturesFile.read(run)
        lists = [
            PictureList(title, about, [(one, _kept(run, one.path)) for one in some])
            for title, about, some in _chosen(read.pictures)
            if some
        ]
        copies = [
            (ShownFile(held_out, _kept(run, held_out)), ShownFile(trained, _kept(run, trained)))
            for held_out, trained in read.copies[:SHOWN]
        ]
        left_out = [f"{read.broken:,} pictures of {FILE} that cannot be read"] if read.broken else []
        near = [(one, _shown(run / one.kept), _kept(run, one.picture)) for one in near_samples(run)]
        return cls(lists, copies, len(read.copies), near, left_out)


def keep_thumbnails(run: Path) -> None:
    """Make the thumbnails of the pictures that stand out, and remove those of others; what takes longer waits.

    For the process that trains alone: it reads these pictures anyway. Raises OSError where nothing can be written.
    """
    read = _PicturesFile.read(run)
    listed = [one.path for _, _, some in _chosen(read.pictures) for one in some]
    listed += [path for pair in read.copies[:SHOWN] for path in pair]
    listed += [one.picture for one in near_samples(run)]
    if not listed:
        return
    ends = time.monotonic() + SECONDS
    wanted = {run / thumbnail_of(path): path for path in listed}
    for place, path in wanted.items():
        if not place.exists() and time.monotonic() < ends:
            with suppress(Fault, OSError):  # gone or damaged: its name has to do
                _keep(path, place)
    for place in (run / THUMBNAILS).glob("*.jpg"):
        if place not in wanted:
            place.unlink(missing_ok=True)


def _keep(path: str, place: Path) -> None:
    """Make the thumbnail of a picture, which may lie in a shard of a packed set on this machine."""
    from lun.data.images.decode import decode  # with torch, which a process that trains has
    from lun.data.packs.named_sample import picture_of

    picture = decode(picture_of(path) or path, (SIDE, SIDE))
    picture.thumbnail((SIDE, SIDE))
    with replacing(place) as file:
        picture.save(file, "JPEG", quality=82)


def thumbnail_of(path: str) -> Path:
    """Where the thumbnail of a picture lies below the run."""
    return THUMBNAILS / f"{hashlib.sha256(path.encode('utf-8', 'replace')).hexdigest()[:24]}.jpg"


def _chosen(pictures: Sequence[ListedPicture]) -> list[tuple[str, str, list[ListedPicture]]]:
    """(title, what it means, pictures) of each list."""
    by_excess = sorted(pictures, key=lambda one: -one.excess)
    train = [one for one in by_excess if one.split == "train"]
    hard = [one for one in train if one.excess > 0]
    easy = [one for one in reversed(train) if one.excess <= 0]
    held_out = [one for one in by_excess if one.split == "val"]
    return [
        ("Hardest in training", "mislabelled, damaged, or unlike all others", hard[:SHOWN]),
        ("Easiest in training", "plain, or memorised", easy[:SHOWN]),
        *_memorised(train, held_out),
        ("Hardest held out", "by the loss with noise that is the same each time", held_out[:SHOWN]),
    ]


def _memorised(
    train: Sequence[ListedPicture], held_out: Sequence[ListedPicture]
) -> Iterator[tuple[str, str, list[ListedPicture]]]:
    rise = held_out_rise([one.trace for one in held_out])
    if rise is not None:
        by_path = {one.path: one for one in train}
        fallen = fallen_since({path: one.trace for path, one in by_path.items()}, rise.step)
        about = (
            f"their loss fell since step {rise.step:,}, while that of pictures held out rose"
            f" from {rise.lowest:.3g} to {rise.now:.3g}"
        )
        yield "Memorised", about, [by_path[path] for path in fallen][:SHOWN]


@dataclass(frozen=True)
class _PicturesFile:
    """What `metrics/pictures.json` holds; `copies` are [held out, trained on]; `broken` entries are left out."""

    pictures: list[ListedPicture]
    copies: list[tuple[str, str]]
    broken: int

    @classmethod
    def read(cls, run: Path) -> _PicturesFile:
        try:
            table: Any = read_json(run / FILE)
        except (OSError, ValueError):
            return cls([], [], 0)
        read = [_picture(row) for row in _rows(table, "pictures")]
        pairs = [_pair(row) for row in _rows(table, "copies")]
        copies = [pair for pair in pairs if pair]
        return cls([one for one in read if one], copies, read.count(None) + pairs.count(None))


def _rows(table: object, name: str) -> list[Any]:
    rows = table.get(name) if isinstance(table, Mapping) else None
    return rows if isinstance(rows, list) else []


def _pair(row: object) -> tuple[str, str] | None:
    if isinstance(row, list) and len(row) == 2 and isinstance(row[0], str) and isinstance(row[1], str):
        return row[0], row[1]
    return None


def _picture(row: object) -> ListedPicture | None:
    known = ListedPicture.__dataclass_fields__
    try:
        rows = {name: value for name, value in row.items() if name in known} if isinstance(row, Mapping) else row
        return record_of(ListedPicture, rows)
    except ValueError:
        return None


def _kept(run: Path, picture_path: str) -> str | None:
    return _shown(run / thumbnail_of(picture_path))


def _shown(path: Path) -> str | None:
    try:
        if path.is_symlink() or path.stat().st_size > LARGEST:
            return None
        with Image.open(path) as picture:
            picture.thumbnail((SIDE, SIDE))
            return data_url(picture.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
