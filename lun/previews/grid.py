"""From tensors to one picture that a person can look at: bytes, grids with captions, and wrapped text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from ldm.files.replacing import replacing

if TYPE_CHECKING:
    from torch import Tensor

Font = ImageFont.FreeTypeFont | ImageFont.ImageFont
Pixels = NDArray[np.uint8]
WHITE, DARK, GREY = (255, 255, 255), (28, 28, 30), (118, 118, 122)
CAPTION_SIZE, LINE, LINES = 11, 13, 3


def to_uint8(images: Tensor, clamp: bool = True, rescale: bool = True) -> Pixels:
    """(n, 3, h, w) in [-1, 1] to bytes (n, h, w, 3), rounded to nearest; not-a-number becomes the middle grey.

    rescale  False: the pictures are in [0, 1] already
    clamp    False: a picture that leaves the range is squeezed into it instead of being cut off
    """
    pictures = images.detach().float().cpu().nan_to_num(nan=0.0)
    unit = (pictures + 1) / 2 if rescale else pictures
    if not clamp:
        low = unit.amin((1, 2, 3), keepdim=True).clamp(max=0)
        high = unit.amax((1, 2, 3), keepdim=True).clamp(min=1)
        unit = (unit - low) / (high - low)
    unit = unit.clamp(0, 1).expand(-1, 3, -1, -1)
    return np.ascontiguousarray((unit * 255).round().byte().permute(0, 2, 3, 1).numpy())


def on_one_size(pictures: Sequence[Tensor]) -> Tensor:
    """(n, 3, H, W) of pictures (3, h, w), each in the left upper corner, and white (1) beside and below it."""
    from torch import stack
    from torch.nn.functional import pad

    height, width = (max(picture.shape[axis] for picture in pictures) for axis in (1, 2))
    return stack([pad(p, (0, width - p.shape[2], 0, height - p.shape[1]), value=1.0) for p in pictures])


@dataclass(frozen=True)
class Layout:
    """Where the tiles of a grid lie; all in pixels, `scale` enlarges each picture by a whole number."""

    width: int
    height: int
    count: int
    columns: int
    scale: int = 1
    caption: int = 0
    gap: int = 4

    @property
    def size(self) -> tuple[int, int]:
        rows = -(-self.count // self.columns)
        across, down = self.pitch
        return self.gap + self.columns * across, self.gap + rows * down

    @property
    def pitch(self) -> tuple[int, int]:
        """From one tile to the next: across, down."""
        return self.width * self.scale + self.gap, self.height * self.scale + self.caption + self.gap

    def box(self, index: int, size: tuple[int, int] | None = None) -> tuple[int, int, int, int]:
        """Left, top, right and bottom of the picture of one tile, its caption left out.

        size  (width, height) of a picture that does not fill its tile: see `on_one_size`
        """
        across, down = self.pitch
        width, height = size or (self.width, self.height)
        left = self.gap + index % self.columns * across
        top = self.gap + index // self.columns * down
        return left, top, left + width * self.scale, top + height * self.scale


def layout(images: Pixels, columns: int, captioned: bool = False, scale: int = 1) -> Layout:
    """The layout of a grid of (n, h, w, 3) pictures."""
    count, height, width, _ = images.shape
    caption = LINE * LINES + 4 if captioned else 0
    return Layout(width, height, count, max(1, min(columns, count)), scale, caption, gap=8 if captioned else 4)


def grid(images: Pixels, columns: int, captions: Sequence[str] | None = None, scale: int = 1) -> Image.Image:
    """One picture of (n, h, w, 3) pictures, `columns` across, on white, with each caption under its tile."""
    plan = layout(images, columns, captions is not None, scale)
    sheet = Image.new("RGB", plan.size, WHITE)
    pen = ImageDraw.Draw(sheet)
    for index, pixels in enumerate(images):
        left, top, right, bottom = plan.box(index)
        sheet.paste(enlarged(Image.fromarray(pixels), scale), (left, top))
        if captions is not None:
            for row, line in enumerate(wrapped(captions[index], font(CAPTION_SIZE), right - left, LINES)):
                middle = (left + right) / 2
                pen.text((middle, bottom + 3 + row * LINE), line, fill=GREY, font=font(CAPTION_SIZE), anchor="ma")
    return sheet


def enlarged(picture: Image.Image, scale: int) -> Image.Image:
    """Each pixel as a square of `scale` pixels."""
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)


def fitted(picture: Image.Image, width: int) -> Image.Image:
    """A picture about `width` pixels wide: small ones in whole pixels, so that they stay sharp, large ones averaged."""
    if picture.width <= width:
        return enlarged(picture, max(1, round(width / picture.width)))
    height = max(1, round(picture.height * width / picture.width))
    return picture.resize((width, height), Image.Resampling.LANCZOS)


def font(size: int) -> Font:
    """Pillow's own scalable font, so that nothing has to be installed or shipped."""
    return ImageFont.load_default(size)


def wrapped(text: str, face: Font, width: float, lines: int) -> list[str]:
    """`text` broken between words into at most `lines` lines of `width` pixels; an ellipsis ends what does not fit."""
    words = text.split()
    rows: list[str] = []
    while words and len(rows) < lines:
        row = words.pop(0)
        while words and face.getlength(f"{row} {words[0]}") <= width:
            row += " " + words.pop(0)
        rows.append(row)
    if words:
        rows[-1] += " " + " ".join(words)
    return [shortened(row, face, width) for row in rows]


def shortened(text: str, face: Font, width: float) -> str:
    """`text` cut at the end, with an ellipsis, until it is at most `width` pixels wide."""
    if face.getlength(text) <= width:
        return text
    while text and face.getlength(text + "…") > width:
        text = text[:-1].rstrip(" ,")
    return text + "…"


def write(picture: Image.Image, path: Path, **options: Any) -> None:
    """Save a PNG so that a viewer never sees half of it."""
    with replacing(path) as file:
        picture.save(file, format="PNG", **options)
