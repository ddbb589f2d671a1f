"""What is done to the pixels of each picture, from whatever file: one law for folders and for packed sets."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Literal

import torch
from PIL import Image
from PIL.Image import Resampling

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.example import Example
from lun.data.images.colour_jitter import JITTERS, ColourJitter, is_jitter, jittered
from lun.data.images.colours import ColourManagement
from lun.data.images.cuts import CROPS, Box, CropSetting, Cut, DrawnPart, cut_of, is_crop, is_drawn
from lun.data.images.decode import (
    DECODING,
    RESAMPLING,
    Interpolation,
    decode_sized,
    fit,
    flip,
    to_bytes,
)
from lun.data.images.loss_masks import MaskKind, read_mask
from lun.data.order.law import Size

File = str | os.PathLike[str]
Decoding = Literal["fast", "exact"]

MOST_DEGREES = 45.0
FURTHER = ("decode", "colour_jitter", "rotate")
"""Settings that are no part of what names pixels while they are left as they are: caches are older than they."""


@dataclass(frozen=True)
class Preparation:
    """How a picture becomes an example: settings of every set of pictures.

    size           pixels of the square that the network sees; None keeps each picture's scale
    interpolation  how pictures are resized
    flip_p         probability of mirroring left to right, drawn anew whenever an example comes round
    crop           `true` or `centre` cuts out the middle; `random` a part at a drawn place, `{resized: [0.5, 1]}` one
                   of a drawn share of the area as well; with `false` a picture is squeezed into the square
    mask           where pictures count in the loss: `folder` reads `mask/NAME.png`, whose white counts; `alpha` takes
                   what is opaque; a picture without either counts everywhere
    icc            `convert` reads colours by the profile in the file, so that all are sRGB; `ignore` takes its numbers
                   for sRGB
    decode         `fast` lets a JPEG decode to 1/2, 1/4 or 1/8 of its size where more is not seen, and averages what
                   is reduced much; `exact` decodes and reduces every pixel, in 2.5 times the time
    colour_jitter  colours moved by chance: brightness, contrast, saturation, hue
    rotate         turn pictures by up to so many degrees, drawn; what is cut out keeps clear of the corners

    What is drawn follows from an example's place in training. Raises `Fault` CFG08 for a setting that makes no sense.
    """

    size: int | None = 512
    interpolation: Interpolation = "bicubic"
    flip_p: float = 0.5
    crop: CropSetting = True
    mask: MaskKind | None = None
    icc: ColourManagement = "convert"
    decode: Decoding = "fast"
    colour_jitter: ColourJitter | None = None
    rotate: float = 0.0

    def __post_init__(self) -> None:
        require(self.size is None or self.size > 0, "size", self.size, "a number of pixels above 0, or null")
        require(self.interpolation in RESAMPLING, "interpolation", self.interpolation, ", ".join(RESAMPLING))
        require(0 <= self.flip_p <= 1, "flip_p", self.flip_p, "a probability, 0 to 1")
        require(self.icc in ("convert", "ignore"), "icc", self.icc, "convert or ignore")
        require(self.decode in ("fast", "exact"), "decode", self.decode, "fast or exact")
        require(is_crop(self.crop), "crop", self.crop, CROPS)
        jitter = self.colour_jitter
        require(jitter is None or is_jitter(jitter), "colour_jitter", jitter, f"{JITTERS}, or null")
        require(0 <= self.rotate <= MOST_DEGREES, "rotate", self.rotate, f"degrees from 0 to {MOST_DEGREES:g}")
        self._require_sense()

    def _require_sense(self) -> None:
        """Raise `Fault` CFG08 for settings that shut each other out."""
        if self.size is None and isinstance(self.crop, Mapping):
            why = "with size: null each picture keeps its scale, and a cut of another size would change it"
            raise Fault(
                "CFG08", "crop: {resized: ...} of a data set has no effect", why=why, fix="a size, or crop: random"
            )
        if self.rotate and not self.crop:
            why = "the empty corners of a picture that was turned can only be cut away"
            raise Fault("CFG08", "rotate of a data set needs a crop", why=why, fix="crop: true, or without rotate")

    @property
    def varied(self) -> bool:
        """Whether more than the mirroring of a picture is left to chance."""
        return is_drawn(self.crop) or self.colour_jitter is not None or self.rotate > 0

    def picture(
        self, file: File, beside: File | None, flipped: bool, size: Size | None = None, draws: Draws | None = None
    ) -> Example:
        """`image` and `mask` of the picture in `file`, cut to `size` (width, height), else to the square.

        beside  the file of its mask, where there is one
        draws   of what is left to chance besides the mirroring; without them nothing is

        Raises `Fault` DAT06 for a broken picture or mask.
        """
        target = self._target(size)
        turned = self._turned(draws)
        where = self._cut(draws, turned)
        read, whole = decode_sized(file, partial(self._at_least, where=where, target=target), self.icc)
        cut = partial(self._cut_out, where=where, turned=turned, target=target, whole=whole)
        image = cut(read)
        if self.colour_jitter is not None and draws is not None:
            image = jittered(image, self.colour_jitter, draws)
        example: Example = {"image": to_bytes(image)}  # type: ignore[typeddict-item]  # no caption yet
        mask = read_mask(file, beside, self.mask, cut) if self.mask else None
        if mask is not None:
            example["mask"] = mask.flip(1) if flipped else mask
        if flipped:
            example["image"] = flip(example["image"])
        return example

    def _cut_out(self, image: Image.Image, where: Cut, turned: float, target: Size | None, whole: Size) -> Image.Image:
        """The part of a picture or mask that is seen, which has `whole` pixels in its file and maybe fewer here."""
        resampling = RESAMPLING[self.interpolation]
        if turned:
            image = image.rotate(turned, Resampling.BICUBIC)
        if isinstance(where, DrawnPart):
            across, down = image.width / whole[0], image.height / whole[1]
            left, top, right, bottom = where.box(whole, target)
            box = (left * across, top * down, min(image.width, right * across), min(image.height, bottom * down))
        else:
            box = where.box(image.size, target)
        return fit(image, target, box, resampling, exact=self.decode == "exact")

    def placement(self, picture: Size, flipped: bool, size: Size | None = None, draws: Draws | None = None) -> Example:
        """Sizes in (height, width) pixels, the crop's (top, left) in those of the resized picture, mirrored or not.

        picture  its (width, height), upright
        """
        target = self._target(size)
        left, top, right, bottom = self.box(picture, target, draws)
        wide, high = target or (round(right - left), round(bottom - top))
        first = picture[0] - right if flipped else left
        return {  # type: ignore[typeddict-item]  # a part of an example
            "original_size": (picture[1], picture[0]),
            "crop": (round(top * high / max(1, bottom - top)), round(first * wide / max(1, right - left))),
            "target_size": (high, wide),
        }

    def box(self, picture: Size, target: Size | None, draws: Draws | None = None) -> Box:
        """What is seen of a picture (width, height), turned as `draws` decide, in its own pixels."""
        return self._cut(draws, self._turned(draws)).box(picture, target)

    def _cut(self, draws: Draws | None, turned: float) -> Cut:
        return cut_of(self.crop, draws, turned)

    def _turned(self, draws: Draws | None) -> float:
        """Degrees by which a picture is turned."""
        if draws is None or not self.rotate:
            return 0.0
        return self.rotate * (2 * torch.rand((), generator=draws("rotate"), dtype=torch.float64).item() - 1)

    def _at_least(self, whole: Size, where: Cut, target: Size | None) -> Size | None:
        """(width, height) to which a JPEG of `whole` pixels has to be decoded for a cut with the target's pixels."""
        if target is None or self.decode == "exact":
            return None
        if not isinstance(where, DrawnPart):
            return target
        left, top, right, bottom = where.box(whole, target)
        return math.ceil(whole[0] * target[0] / (right - left)), math.ceil(whole[1] * target[1] / (bottom - top))

    def flipped(self, draws: Draws) -> bool:
        """Whether the example with these draws is mirrored."""
        return torch.rand((), generator=draws("flip")).item() < self.flip_p

    def identity(self) -> str:
        """What the pixels depend on besides the file, the mirroring, an asked size and what is drawn."""
        resampling, crop = RESAMPLING[self.interpolation].name, self.crop == "centre" or self.crop
        kept = f"size={self.size} crop={crop} resampling={resampling} mask={self.mask} icc={self.icc}"
        further = [one for one in fields(self) if one.name in FURTHER and getattr(self, one.name) != one.default]
        return f"{kept} decoding={DECODING}" + "".join(f" {one.name}={getattr(self, one.name)}" for one in further)

    def _target(self, size: Size | None) -> Size | None:
        return size or (None if self.size is None else (self.size, self.size))


def require(holds: bool, name: str, value: object, kind: str) -> None:
    """Raise `Fault` CFG08 for a setting of a folder that does not hold."""
    if not holds:
        raise Fault("CFG08", f"{name} of a data set cannot be {value!r}", why=f"it takes {kind}")
