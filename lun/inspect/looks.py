"""A look into the files: which of them need care, and which look alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from ldm.errors import Fault
from lun.data.images.colours import profile_kind
from lun.data.images.decode import DECODE_ERRORS, decode, opened
from lun.inspect.view import DatasetView

HEADERS_READ = 20_000
PICTURES_READ = 3_000
NEAR = 5
"""Bits of 64 in which two pictures may differ and still look alike."""

_THREADS = 8
_ROWS_AT_ONCE = 512
_ORIENTATION = 0x0112
_SRGB_GAMMA = 1 / 2.2


@dataclass(frozen=True)
class Looks:
    """What files are like: how many of `headers` files are of each kind, and groups of names that look alike."""

    headers: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    pictures: int = 0
    alike: list[list[str]] = field(default_factory=list)


def looks_of(data: DatasetView) -> Looks:
    """Reads up to 20,000 headers and 3,000 pictures, spread evenly; unreadable files are reported elsewhere."""
    if not data.has_files:
        return Looks()
    few, fewer = data.spread(HEADERS_READ), data.spread(PICTURES_READ)
    with ThreadPoolExecutor(_THREADS) as threads:
        kinds = list(threads.map(lambda index: kinds_of(data.file(index)), few))
        hashes = list(threads.map(lambda index: difference_hash(data.file(index)), fewer))
    sound = [(index, number) for index, number in zip(fewer, hashes, strict=True) if number is not None]
    groups = near(np.array([number for _, number in sound], np.uint64))
    return Looks(
        headers=len(kinds),
        kinds=dict(Counter(kind for several in kinds for kind in several).most_common()),
        pictures=len(fewer),
        alike=[[data.name(sound[place][0]) for place in group] for group in groups],
    )


def kinds_of(path: Path) -> list[str]:
    """What a file's header says that a trainer has to do something about; nothing for what is no picture."""
    try:
        with opened(path) as image:
            return [kind for kind, holds in _asked(image) if holds]
    except (*DECODE_ERRORS, Fault):  # the picture itself is listed among the broken ones
        return []


def _asked(image: Image.Image) -> Iterator[tuple[str, bool]]:
    deep = image.mode.startswith(("I", "F")) or any(";16" in str(tile) for tile in getattr(image, "tile", ()))
    yield "transparent (laid over white)", image.has_transparency_data
    profile = profile_kind(image)
    yield "ICC profile (colours converted to sRGB)", profile == "other"
    yield "broken ICC profile (read as sRGB)", profile == "broken"
    yield (
        "PNG gamma (not applied)",
        profile == "none" and abs(image.info.get("gamma", _SRGB_GAMMA) - _SRGB_GAMMA) > 0.02,
    )
    yield "CMYK", image.mode == "CMYK"
    yield "16 bits (read as 8)", deep
    yield "greyscale", image.mode in ("1", "L", "LA") or image.mode.startswith(("I", "F"))
    yield "palette", image.mode in ("P", "PA")
    yield "animated (first frame)", bool(getattr(image, "is_animated", False))
    yield "turned by EXIF", image.getexif().get(_ORIENTATION, 1) in range(2, 9)


def difference_hash(path: Path) -> int | None:
    """64 bits, whether each of 8 x 8 places is brighter than its left neighbour; None for what is not to be compared.

    Such are files that cannot be read, and pictures in which hardly anything differs.
    """
    try:
        small = decode(path, (72, 64)).convert("L").resize((9, 8), Image.Resampling.LANCZOS, reducing_gap=3.0)
    except Fault:
        return None
    pixels = np.asarray(small, np.int16)
    if np.ptp(pixels) < 8:
        return None
    return int.from_bytes(np.packbits(pixels[:, 1:] > pixels[:, :-1]).tobytes(), "big")


def near(hashes: np.ndarray) -> list[list[int]]:
    """Groups of two or more (n,) uint64 that differ from another of their group in at most 5 bits, by place."""
    parent = list(range(len(hashes)))

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    for start in range(0, len(hashes), _ROWS_AT_ONCE):
        distances = np.bitwise_count(hashes[start : start + _ROWS_AT_ONCE, None] ^ hashes[None, :])
        for row, other in np.argwhere(distances <= NEAR).tolist():
            if start + row < other:
                parent[root(other)] = root(start + row)
    groups: dict[int, list[int]] = {}
    for place in range(len(hashes)):
        groups.setdefault(root(place), []).append(place)
    return [group for group in groups.values() if len(group) > 1]


def beyond_copies(alike: Sequence[list[str]], copies: Sequence[list[str]]) -> list[list[str]]:
    """The groups that look alike without those in which all files hold the same bytes."""
    same = [frozenset(group) for group in copies]
    return [group for group in alike if not any(frozenset(group) <= one for one in same)]
