"""What the model will see: the first examples of training with their crops, flips and captions, and other draws."""

from __future__ import annotations

import base64
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from PIL import Image, ImageDraw, ImageFont

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.images import decode
from lun.data.local import Local
from lun.data.sampler import Order

SHOWN = 40
DRAWS = 3
THUMBNAIL = 160
_ROW = 8
_TEXT_LINES = 4


@dataclass(frozen=True)
class Seen:
    """One example: its picture as the network gets it, the whole picture beside it, the captions of several draws."""

    slot: int
    name: str
    image: Image.Image
    whole: Image.Image
    captions: tuple[str, ...]


def first_examples(data: Local, seed: int, count: int = SHOWN) -> tuple[list[Seen], list[tuple[str, str, str]]]:
    """The examples of the first slots of a run with `seed`, one by one, and what could not be read.

    The first caption is that of the slot; the others are those of the same picture in later epochs.
    """
    order, n = Order(len(data), seed), len(data)
    seen: list[Seen] = []
    broken: list[tuple[str, str, str]] = []
    for slot in range(min(count, n)):
        index = order.key(slot).example
        try:
            seen.append(_seen(data, index, seed, slot, n))
        except Fault as fault:
            broken.append((data.name(index), "unreadable image", fault.why))
    return seen, broken


def _seen(data: Local, index: int, seed: int, slot: int, n: int) -> Seen:
    example = data.example(index, Draws(seed, slot))
    pixels = ((example["image"] + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).numpy()
    later = (data.caption(index, Draws(seed, slot + epoch * n)) for epoch in range(1, DRAWS))
    whole = decode(data.path(index), (THUMBNAIL, THUMBNAIL))
    whole.thumbnail((THUMBNAIL, THUMBNAIL))
    return Seen(slot, data.name(index), Image.fromarray(pixels), whole, (example["caption"], *later))


def thumbnail(image: Image.Image) -> Image.Image:
    """At most 160 pixels a side; small pictures are enlarged in whole pixels."""
    image = image.copy()
    times = THUMBNAIL // max(image.size)
    if times > 1:
        return image.resize((image.width * times, image.height * times), Image.Resampling.NEAREST)
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    return image


def data_url(image: Image.Image) -> str:
    """A picture to stand inside a page."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=82)
    return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()


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
        lines = textwrap.wrap(one.captions[0] or "(empty)", 27)
        if len(lines) > _TEXT_LINES:
            lines = [*lines[: _TEXT_LINES - 1], lines[_TEXT_LINES - 1][:24] + "..."]
        draw.multiline_text((left, top + THUMBNAIL + 3), "\n".join(lines), fill="black", font=font, spacing=2)
    return sheet
