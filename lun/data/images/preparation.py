"""What is done to the pixels of each picture, from whatever file: one law for folders and for packed sets."""

import os
from dataclasses import dataclass
from functools import partial

import torch

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.example import Example
from lun.data.images.colours import ColourManagement
from lun.data.images.decode import (
    DECODING,
    RESAMPLING,
    Interpolation,
    cut_box,
    decode,
    fit,
    flip,
    to_bytes,
)
from lun.data.images.loss_masks import MaskKind, read_mask
from lun.data.order.law import Size

File = str | os.PathLike[str]


@dataclass(frozen=True)
class Preparation:
    """How a picture becomes an example: settings of every set of pictures.

    size           pixels of the square that the network sees; None keeps each picture's scale
    interpolation  how pictures are resized
    flip_p         probability of mirroring left to right, drawn anew whenever an example comes round
    crop           cut out the centre first; without it a picture is squeezed into the square
    mask           where pictures count in the loss: `folder` reads `mask/NAME.png`, whose white counts; `alpha` takes
                   what is opaque; a picture without either counts everywhere
    icc            `convert` reads colours by the profile in the file, so that all are sRGB; `ignore` takes its numbers
                   for sRGB

    Raises `Fault` CFG08 for a setting that makes no sense.
    """

    size: int | None = 512
    interpolation: Interpolation = "bicubic"
    flip_p: float = 0.5
    crop: bool = True
    mask: MaskKind | None = None
    icc: ColourManagement = "convert"

    def __post_init__(self) -> None:
        require(self.size is None or self.size > 0, "size", self.size, "a number of pixels above 0, or null")
        require(self.interpolation in RESAMPLING, "interpolation", self.interpolation, ", ".join(RESAMPLING))
        require(0 <= self.flip_p <= 1, "flip_p", self.flip_p, "a probability, 0 to 1")
        require(self.icc in ("convert", "ignore"), "icc", self.icc, "convert or ignore")

    def picture(self, file: File, beside: File | None, flipped: bool, size: Size | None = None) -> Example:
        """`image` and `mask` of the picture in `file`, cut to `size` (width, height), else to the square.

        beside  the file of its mask, where there is one. Raises `Fault` DAT06 for a broken picture or mask.
        """
        target = self._target(size)
        cut = partial(fit, size=target, crop=self.crop, resampling=RESAMPLING[self.interpolation])
        example: Example = {"image": to_bytes(cut(decode(file, target, self.icc)))}  # type: ignore[typeddict-item]  # no caption yet
        mask = read_mask(file, beside, self.mask, cut) if self.mask else None
        if mask is not None:
            example["mask"] = mask.flip(1) if flipped else mask
        if flipped:
            example["image"] = flip(example["image"])
        return example

    def placement(self, picture: Size, flipped: bool, size: Size | None = None) -> Example:
        """Sizes in (height, width) pixels, the crop's (top, left) in those of the resized picture, mirrored or not.

        picture  its (width, height), upright
        """
        target = self._target(size)
        left, top, right, bottom = cut_box(picture, target, self.crop)
        wide, high = target or (right - left, bottom - top)
        first = picture[0] - right if flipped else left
        return {  # type: ignore[typeddict-item]  # a part of an example
            "original_size": (picture[1], picture[0]),
            "crop": (round(top * high / max(1, bottom - top)), round(first * wide / max(1, right - left))),
            "target_size": (high, wide),
        }

    def flipped(self, draws: Draws) -> bool:
        """Whether the example with these draws is mirrored."""
        return torch.rand((), generator=draws("flip")).item() < self.flip_p

    def identity(self) -> str:
        """What the pixels depend on besides the file, the mirroring and an asked size."""
        resampling = RESAMPLING[self.interpolation].name
        kept = f"size={self.size} crop={self.crop} resampling={resampling} mask={self.mask} icc={self.icc}"
        return f"{kept} decoding={DECODING}"

    def _target(self, size: Size | None) -> Size | None:
        return size or (None if self.size is None else (self.size, self.size))


def require(holds: bool, name: str, value: object, kind: str) -> None:
    """Raise `Fault` CFG08 for a setting of a folder that does not hold."""
    if not holds:
        raise Fault("CFG08", f"{name} of a data set cannot be {value!r}", why=f"it takes {kind}")
