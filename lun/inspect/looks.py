"""A look into the files: which of them need care, and which look alike."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from PIL import Image

from ldm.errors import Fault
from lun.data.images.colours import profile_kind
from lun.data.images.decode import DECODE_ERRORS, opened
from lun.inspect.prints import prints_of
from lun.inspect.view import DatasetView

HEADERS_READ = 20_000
PICTURES_READ = 3_000
_ORIENTATION = 0x0112
_SRGB_GAMMA = 1 / 2.2


@dataclass(frozen=True)
class Looks:
    """What files are like: how many of `headers` files are of each kind, and groups of names that look alike."""

    headers: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    pictures: int = 0
    alike: list[list[str]] = field(default_factory=list)
    copies: list[list[str]] = field(default_factory=list)
    """groups of the same bytes, of what has no files of its own"""


def looks_of(data: DatasetView) -> Looks:
    """Reads up to 20,000 headers and 3,000 pictures, spread evenly; unreadable files are reported elsewhere."""
    if not data.has_pictures:
        return Looks()
    fewer = data.spread(PICTURES_READ)
    few = data.spread(HEADERS_READ) if data.has_files else fewer  # a packed picture is read whole for its header
    kinds = data.over_files(few, lambda index: kinds_of(data.file(index)))
    prints = prints_of(data, fewer, contents=not data.has_files)
    return Looks(
        headers=len(kinds),
        kinds=dict(Counter(kind for several in kinds for kind in several).most_common()),
        pictures=len(fewer),
        alike=[[data.name(fewer[place]) for place in group] for group in prints.alike()],
        copies=[[data.name(fewer[place]) for place in group] for group in prints.copies()],
    )


def kinds_of(path: os.PathLike[str]) -> list[str]:
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


def beyond_copies(alike: Sequence[list[str]], copies: Sequence[list[str]]) -> list[list[str]]:
    """The groups that look alike without those in which all files hold the same bytes."""
    same = [frozenset(group) for group in copies]
    return [group for group in alike if not any(frozenset(group) <= one for one in same)]
