"""From an image file to numbers: decode, turn upright, lay over white, crop and resize, scale to [-1, 1]."""

import os
import struct
import zlib
from typing import Literal

import numpy as np
import torch
from PIL import Image, ImageFile, ImageOps, PngImagePlugin
from PIL.Image import Resampling
from torch import Tensor

from ldm.errors import Fault

# Pillow's limits guard web servers against strangers; here the files are the user's own scans and exports.
Image.MAX_IMAGE_PIXELS = 93_312_000_000
PngImagePlugin.MAX_TEXT_CHUNK = 10 * ImageFile.SAFEBLOCK
PngImagePlugin.MAX_TEXT_MEMORY = 64 * PngImagePlugin.MAX_TEXT_CHUNK

Interpolation = Literal["bicubic", "linear", "bilinear", "lanczos"]

RESAMPLING: dict[str, Resampling] = {
    "bicubic": Resampling.BICUBIC,
    "linear": Resampling.BILINEAR,
    "bilinear": Resampling.BILINEAR,
    "lanczos": Resampling.LANCZOS,
}

_DECODE_ERRORS = (
    OSError,
    SyntaxError,
    ValueError,
    EOFError,
    IndexError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""What Pillow's decoders raise for damaged files, each format its own kind."""

_SIGNATURES = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG", b"BM": "BMP", b"RIFF": "WebP", b"GIF8": "GIF"}


def decode(path: str | os.PathLike[str]) -> Image.Image:
    """The picture in file `path` as RGB, upright, 8 bits a channel, transparent parts over white.

    Raises `Fault` DAT06, which names the file and what is wrong with it.
    """
    try:
        with Image.open(path) as image:
            image.load()
            return to_rgb(_upright(image))
    except _DECODE_ERRORS as error:
        raise Fault(
            "DAT06", f"cannot read image {os.fspath(path)}", why=_reason(path, error), fix="replace or remove the file"
        ) from error


def _upright(image: Image.Image) -> Image.Image:
    try:
        return ImageOps.exif_transpose(image)
    except _DECODE_ERRORS:  # a camera's broken notes say nothing of the direction, and the pixels are sound
        return image


def to_rgb(image: Image.Image) -> Image.Image:
    """Any kind of picture as RGB: greyscale, palette, CMYK, 16 bits, with alpha or a transparent colour over white."""
    if image.mode.startswith("I"):
        image = _eight_bits(image)
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def _eight_bits(image: Image.Image) -> Image.Image:
    """16-bit greyscale as 8 bits, since Pillow's own conversion clips or truncates."""
    values = np.asarray(image).astype(np.int64).clip(0, 65535)
    grey = Image.fromarray(((values + 128) // 257).astype(np.uint8))
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey.putalpha(Image.fromarray(np.where(values == transparent, 0, 255).astype(np.uint8)))
    return grey


def fit(image: Image.Image, size: int | None, crop: bool, resampling: Resampling) -> Image.Image:
    """The centre square of `image` (all of it without `crop`) as size x size pixels; `size` None keeps the scale."""
    box = centre_square(*image.size) if crop else (0, 0, *image.size)
    if size is None:
        return image.crop(box)
    return image.resize((size, size), resampling, box=box, reducing_gap=3.0)


def centre_square(width: int, height: int) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of the largest square in the middle, in whole pixels."""
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def to_array(image: Image.Image) -> Tensor:
    """(h, w, 3) float32 in [-1, 1] from an 8-bit RGB picture; 0 becomes -1 and 255 becomes 1."""
    return torch.from_numpy(np.array(image)).float().div_(127.5).sub_(1.0)


def flip(image: Tensor) -> Tensor:
    """(h, w, 3) mirrored left to right."""
    return image.flip(1)


def _reason(path: str | os.PathLike[str], error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or str(error)
    with open(path, "rb") as file:
        start = file.read(64)
    if not start:
        return "empty file (0 bytes)"
    kind = next((kind for magic, kind in _SIGNATURES.items() if start.startswith(magic)), None)
    unidentified = isinstance(error, Image.UnidentifiedImageError)
    if kind is not None:
        return f"truncated or damaged {kind} file" + ("" if unidentified else f": {error}")
    if start.startswith(b"version https://git-lfs"):
        return "not an image but a git-lfs pointer: git lfs pull brings the file"
    return f"not an image (starts with {_shown(start)})" if unidentified else f"damaged: {error}"


def _shown(start: bytes) -> str:
    text = start.decode("latin-1").strip()
    line = text.splitlines()[0] if text else ""
    if not line or not line.isprintable():
        return "the bytes " + start[:8].hex(" ")
    is_page = line.lower().startswith(("<!doctype html", "<html"))
    return f'"{line[:24]}"' + (": a download error page" if is_page else "")
