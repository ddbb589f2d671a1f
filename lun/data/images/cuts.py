"""Which part of a picture is seen: all of it, the middle, or a part that its slot draws."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Required, TypedDict

import torch

from ldm.diffusion.draws import Draws
from lun.data.order.law import Size

Box = tuple[float, float, float, float]
"""(left, top, right, bottom) in pixels of a picture."""


REACH = 4
"""Pixels of the result, beyond a cut, of which Lanczos' filter still takes something after a first reduction."""


class ResizedCrop(TypedDict):
    """A cut of a drawn size at a drawn place."""

    resized: Required[list[float]]
    """[least, most] of the area of the largest cut of its shape (torchvision's RandomResizedCrop draws a shape too)"""


CropSetting = bool | Literal["centre", "random"] | ResizedCrop
CROPS = "true or centre, random, {resized: [least, most]} with shares of the area above 0 and up to 1, or false"


class Cut(Protocol):
    """Where a cut lies in pictures of any size."""

    def box(self, picture: Size, target: Size | None) -> Box:
        """Of a picture (width, height), for a target (width, height); None: the largest square, at its own scale."""


class Whole:
    """Nothing is cut away."""

    def box(self, picture: Size, target: Size | None) -> Box:
        return (0, 0, *picture)


class Middle:
    """The largest cut of the target's shape, from the middle, in whole pixels of the picture."""

    def box(self, picture: Size, target: Size | None) -> Box:
        return centre_box(*picture, *(target or (1, 1)))


@dataclass(frozen=True)
class DrawnPart:
    """A part of the picture, at a whole number of the target's pixels from its corner, as if it were resized first.

    x, y    where, of the places that there are, in [0, 1)
    side    of the largest cut's sides, in (0, 1]
    turned  degrees by which the picture was turned, so that the cut keeps clear of the corners that came in
    """

    x: float
    y: float
    side: float = 1.0
    turned: float = 0.0

    def box(self, picture: Size, target: Size | None) -> Box:
        wide, high = upright_part(picture, self.turned, target)
        across, down = target or (math.floor(min(wide, high)),) * 2
        scale = min(wide / across, high / down) * self.side if target else 1.0
        first = [(whole - kept) / 2 for whole, kept in zip(picture, (wide, high), strict=True)]
        left = first[0] + _place(self.x, wide / scale - across) * scale
        top = first[1] + _place(self.y, high / scale - down) * scale
        if target is None:
            left, top = float(math.ceil(left)), float(math.ceil(top))
        return left, top, min(picture[0], left + across * scale), min(picture[1], top + down * scale)


def _place(share: float, play: float) -> int:
    """One of the whole pixels of `play` of the target's pixels, each as likely."""
    return int(share * (math.floor(max(0.0, play) + 1e-6) + 1))


def upright_part(picture: Size, degrees: float, target: Size | None) -> tuple[float, float]:
    """(width, height) of the largest upright rectangle of a picture's shape that lies in it once turned.

    It keeps away from the edge by as many of the target's pixels as a filter may look beyond a cut.
    """
    width, height = picture
    if not degrees:
        return width, height
    cosine, sine = math.cos(math.radians(degrees)), abs(math.sin(math.radians(degrees)))
    share = min(width / (width * cosine + height * sine), height / (width * sine + height * cosine))
    scale = max(1.0, min(width / target[0], height / target[1])) if target else 1.0
    return max(1.0, share * width - 2 * REACH * scale), max(1.0, share * height - 2 * REACH * scale)


def is_crop(setting: Any) -> bool:
    """Whether `setting` is a `CropSetting`."""
    if not isinstance(setting, Mapping):
        return setting in (True, False, "centre", "random")
    shares = setting.get("resized")
    if setting.keys() != {"resized"} or not isinstance(shares, list | tuple) or len(shares) != 2:
        return False
    return all(isinstance(share, int | float) for share in shares) and 0 < shares[0] <= shares[1] <= 1


def is_drawn(crop: CropSetting) -> bool:
    """Whether the place of the cut is left to chance."""
    return crop == "random" or isinstance(crop, Mapping)


def cut_of(crop: CropSetting, draws: Draws | None, turned: float = 0.0) -> Cut:
    """The cut that the slot of `draws` decides on; without them nothing is left to chance."""
    if not crop:
        return Whole()
    if draws is None or not (is_drawn(crop) or turned):
        return Middle()
    if not is_drawn(crop):
        return DrawnPart(0.5, 0.5, turned=turned)
    x, y, area = torch.rand(3, generator=draws("crop"), dtype=torch.float64).tolist()
    least, most = crop["resized"] if isinstance(crop, Mapping) else (1.0, 1.0)
    return DrawnPart(x, y, math.sqrt(least + (most - least) * area), turned)


def centre_box(width: int, height: int, across: int = 1, down: int = 1) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of the largest part in the middle with shape `across` : `down`, in pixels."""
    wide = min(width, max(1, round(height * across / down)))
    high = min(height, max(1, round(width * down / across)))
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high
