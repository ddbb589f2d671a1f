"""What the model will see: the first examples of training with their crops, flips and captions, and other draws."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.images.decode import decode
from lun.data.order.bucket_table import assign
from lun.data.order.bucketed import BucketOrder
from lun.data.order.buckets import Buckets
from lun.data.order.law import Key, Law, Order
from lun.inspect.view import DatasetView

SHOWN = 40
DRAWS = 3
THUMBNAIL = 160
SMALL = 96
_ROW = 8
_TEXT_LINES = 4


@dataclass(frozen=True)
class Draw:
    """What one access to a picture gives besides its pixels."""

    caption: str
    mirrored: bool


@dataclass(frozen=True)
class Seen:
    """One example: its picture as the network gets it, the whole picture with the rest darkened, several draws."""

    slot: int
    name: str
    image: Image.Image
    whole: Image.Image
    cropped: float
    draws: tuple[Draw, ...]


def first_examples(
    data: DatasetView, seed: int, buckets: Mapping[str, Any] | None, count: int = SHOWN
) -> tuple[list[Seen], list[tuple[str, str, str]]]:
    """The examples of the first slots of a run with `seed`, one by one, and what could not be read.

    The first draw is that of the slot; the others are those of the same picture at later times.
    """
    law = _law(data, seed, buckets)
    seen: list[Seen] = []
    broken: list[tuple[str, str, str]] = []
    for slot in range(min(count, len(data))):
        key = law.key(slot)
        try:
            seen.append(_seen(data, key, [Draws(seed, key.slot + later * law.n) for later in range(DRAWS)]))
        except Fault as fault:
            broken.append((data.name(key.example), "unreadable image", fault.why))
    return seen, broken


def _law(data: DatasetView, seed: int, buckets: Mapping[str, Any] | None) -> Law:
    if buckets is None:
        return Order(np.repeat(np.arange(len(data)), data.repeats()), seed)
    access = data.access
    return BucketOrder(assign(access.sizes(), access.repeats(), Buckets.read(buckets)), seed, 1)


def _seen(data: DatasetView, key: Key, draws: Sequence[Draws]) -> Seen:
    size = key.size
    pixels, drawn = data.drawn(key.example, draws, size)
    shown = tuple(Draw(caption, mirrored) for caption, mirrored in drawn)
    image = Image.fromarray(((pixels + 1) * 127.5).round().clip(0, 255).astype(np.uint8))
    whole = (
        decode(data.file(key.example), (THUMBNAIL, THUMBNAIL), getattr(data.dataset, "icc", "convert"))
        if data.has_files
        else image.copy()
    )
    whole.thumbnail((THUMBNAIL, THUMBNAIL))
    box = data.part(key, draws[0], whole.size, image.size)
    lost = 1 - (box[2] - box[0]) * (box[3] - box[1]) / (whole.width * whole.height)
    return Seen(key.slot, data.name(key.example), image, _darkened(whole, box), lost, shown)


def _darkened(image: Image.Image, box: tuple[int, int, int, int]) -> Image.Image:
    """What lies outside `box` under a shadow."""
    shadow = Image.blend(image, Image.new("RGB", image.size, (20, 22, 30)), 0.72)
    shadow.paste(image.crop(box), box[:2])
    return shadow


def thumbnail(image: Image.Image) -> Image.Image:
    """At most 160 pixels a side; small pictures are enlarged in whole pixels."""
    image = image.copy()
    times = THUMBNAIL // max(image.size)
    if times > 1:
        return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    return image


def small(path: Path) -> Image.Image:
    """A file as a picture of at most 96 pixels a side."""
    image = decode(path, (SMALL, SMALL))
    image.thumbnail((SMALL, SMALL))
    return image


def contact_sheet(seen: Sequence[Seen]) -> Image.Image:
    """Pictures in rows of eight, each with the caption of its slot below."""
    font = ImageFont.load_default(11)
    cell = (THUMBNAIL + 12, THUMBNAIL + 8 + 13 * _TEXT_LINES)
    rows = -(-len(seen) // _ROW)
    sheet = Image.new("RGB", (cell[0] * min(_ROW, max(1, len(seen))), cell[1] * max(1, rows)), "white")
    draw = ImageDraw.Draw(sheet)
    for place, one in enumerate(seen):
        left, top = place % _ROW * cell[0] + 6, place // _ROW * cell[1] + 4
        image = thumbnail(one.image)
        sheet.paste(image, (left + (THUMBNAIL - image.width) // 2, top))
        lines = textwrap.wrap(one.draws[0].caption or "(empty)", 27)
        if len(lines) > _TEXT_LINES:
            lines = [*lines[: _TEXT_LINES - 1], lines[_TEXT_LINES - 1][:24] + "..."]
        draw.multiline_text((left, top + THUMBNAIL + 3), "\n".join(lines), fill="black", font=font, spacing=2)
    return sheet
