"""Colours: pixels of any kind as 8-bit sRGB, by the file's own ICC profile where it has one."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageCms

ColourManagement = Literal["convert", "ignore"]

ProfileKind = Literal["none", "sRGB", "other", "broken"]
"""`broken`: cannot be read, or speaks of other channels than the picture has; the picture is then taken as sRGB."""

_MODES = {"RGB ": "RGB", "GRAY": "L", "CMYK": "CMYK", "Lab ": "LAB"}
"""Colour space of a profile -> mode of the pixels that it describes."""

_PROFILES_KEPT = 32
_SRGB = ImageCms.createProfile("sRGB")
_FLAGS = ImageCms.Flags.BLACKPOINTCOMPENSATION
_INTENT = ImageCms.Intent.RELATIVE_COLORIMETRIC

_BITS_PER_SAMPLE, _PHOTOMETRIC, _WHITE_IS_ZERO = 258, 262, 0


class NoScale(ValueError):
    """Numbers in a picture of which nothing says what is black and what is white."""


@dataclass(frozen=True)
class _Conversion:
    """From pixels of `mode` to sRGB; `transform` None where no colour moves."""

    mode: str
    transform: Any


def to_rgb(image: Image.Image, icc: ColourManagement = "convert") -> Image.Image:
    """Any kind of picture as 8-bit sRGB, what is transparent over white. Raises `NoScale`."""
    profile = image.info.get("icc_profile") if icc == "convert" else None
    if image.mode == "RGB" and not profile and not image.has_transparency_data:
        return image
    base, alpha = _parts(eight_bits(image))
    opaque = _srgb(base, _conversion(profile) if profile else None)
    if alpha is None:
        return opaque
    opaque.putalpha(alpha)
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), opaque).convert("RGB")


def profile_kind(image: Image.Image) -> ProfileKind:
    """What `to_rgb` makes of the profile of a picture that was opened, decoded or not."""
    profile = image.info.get("icc_profile")
    if not profile:
        return "none"
    conversion = _conversion(profile)
    if conversion is None or not _fits(_base_mode(image.mode), conversion):
        return "broken"
    return "other" if conversion.transform else "sRGB"


def _base_mode(mode: str) -> str:
    """The mode of a picture's colours alone, 8 bits a channel."""
    if mode in ("1", "L", "LA", "La") or mode.startswith(("I", "F")):
        return "L"
    return mode if mode in ("CMYK", "LAB") else "RGB"


def _parts(image: Image.Image) -> tuple[Image.Image, Image.Image | None]:
    """Colours in one of `_MODES`, and the alpha channel where there is one."""
    mode = _base_mode(image.mode)
    if not image.has_transparency_data:
        return image if image.mode == mode else image.convert(mode), None
    image = image.convert("RGBA")
    return image.getchannel("R") if mode == "L" else image.convert("RGB"), image.getchannel("A")


def _fits(mode: str, conversion: _Conversion) -> bool:
    """Greyscale under a profile for RGB is common: its curve holds for all three channels alike."""
    return conversion.mode == mode or (mode, conversion.mode) == ("L", "RGB")


def _srgb(base: Image.Image, conversion: _Conversion | None) -> Image.Image:
    if base.mode == "LAB":  # the numbers are absolute, and Pillow has no conversion of its own
        conversion = _lab()
    if conversion is None or conversion.transform is None or not _fits(base.mode, conversion):
        return base.convert("RGB")
    image = base if base.mode == conversion.mode else base.convert(conversion.mode)
    converted = ImageCms.applyTransform(image, conversion.transform)
    assert converted is not None
    return converted


@lru_cache(maxsize=1)
def _lab() -> _Conversion:
    # In 8 bits LittleCMS would interpolate in a table, which is up to 30 levels off in dark colours.
    exact = ImageCms.Flags.NOOPTIMIZE
    lab = ImageCms.createProfile("LAB")
    return _Conversion("LAB", ImageCms.buildTransform(lab, _SRGB, "LAB", "RGB", _INTENT, exact))


@lru_cache(maxsize=_PROFILES_KEPT)
def _conversion(profile: bytes) -> _Conversion | None:
    """Kept by the profile's bytes, since building costs as much as converting a picture; None for a broken one."""
    try:
        opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        mode = _MODES[opened.profile.xcolor_space]
        transform = ImageCms.buildTransform(opened, _SRGB, mode, "RGB", _INTENT, _FLAGS)
    except (ImageCms.PyCMSError, OSError, KeyError, ValueError):
        return None
    return _Conversion(mode, None if _moves_nothing(mode, transform) else transform)


def _moves_nothing(mode: str, transform: Any) -> bool:
    """Whether no colour of a grid moves by more than one level: sRGB under any of its names."""
    if mode not in ("RGB", "L"):
        return False
    steps = np.arange(0, 256, 17 if mode == "RGB" else 1, dtype=np.uint8)
    colours = np.stack(np.meshgrid(steps, steps, steps), -1) if mode == "RGB" else steps[None]
    grid = Image.fromarray(colours.reshape(1, -1, 3) if mode == "RGB" else colours)
    moved = ImageCms.applyTransform(grid, transform)
    return bool(np.abs(np.asarray(moved, np.int16) - np.asarray(grid.convert("RGB"), np.int16)).max() <= 1)


def eight_bits(image: Image.Image) -> Image.Image:
    """Greyscale of 16 or 32 bits or in floats as 8 bits; Pillow's own conversion clips. Raises `NoScale`."""
    if not image.mode.startswith(("I", "F")):
        return image
    values = np.asarray(image)
    white = _white(image, values)
    levels = np.rint(values * (255 / white)).astype(np.uint8)
    if _tag(image, _PHOTOMETRIC) == _WHITE_IS_ZERO:
        levels = 255 - levels
    grey = Image.fromarray(levels)
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey.putalpha(Image.fromarray(np.where(values == transparent, 0, 255).astype(np.uint8)))
    return grey


def _white(image: Image.Image, values: NDArray[Any]) -> int:
    """The number that means white: by the depth of the file, else the least of 1, 255 and 65535 that holds all."""
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    if image.mode.startswith("I;16"):
        bits = _tag(image, _BITS_PER_SAMPLE)
        return 2 ** (bits if isinstance(bits, int) and high < 2**bits else 16) - 1
    if image.format == "PPM" and image.mode == "I":
        return 65535  # to which Pillow scales whatever depth the file has
    if low >= 0 and high <= 1:
        return 1
    if low >= 0 and high <= 65535 and (values == np.rint(values)).all():
        return 255 if high <= 255 else 65535
    raise NoScale(
        f"its pixels go from {low:g} to {high:g}, and nothing says what is white: "
        "floats are read from 0 to 1, whole numbers to 255 or 65535"
    )


def _tag(image: Image.Image, number: int) -> Any:
    """A tag of a TIFF file, its first value; None for others."""
    value = getattr(image, "tag_v2", {}).get(number)
    return value[0] if isinstance(value, tuple) else value
