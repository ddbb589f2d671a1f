"""From an image file to the bytes of its picture: decode, turn upright, colours to sRGB, crop and resize."""

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Literal

import numpy as np
import torch
from PIL import Image, ImageFile, ImageOps, PngImagePlugin
from PIL.Image import Resampling
from torch import Tensor

from ldm.errors import Fault
from lun.data.images.colours import ColourManagement, NoScale, to_rgb
from lun.data.index.dir_handle import open_file

# Pillow's limit on pixels raises at 179 million, which a large scan has; `_check_pixels` tells bombs better.
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

DECODE_ERRORS = (
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

_SIGNATURES = {
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"BM": "BMP",
    b"RIFF": "WebP",
    b"GIF8": "GIF",
    b"II*\0": "TIFF",
    b"MM\0*": "TIFF",
}

DECODING = 2
"""One more whenever a file gives other pixels than before, so that no cache mixes them."""

MOST_PIXELS = 1 << 29
"""1.6 GB as RGB: no picture is that large, and a worker that tried would be killed for its memory."""

_SUSPICIOUS_PIXELS = 1 << 26
_MOST_PIXELS_A_BYTE = 200
"""Beyond both a file is made to explode: a photograph has about 4 pixels a byte, an empty page some 100."""

_ORIENTATION = 0x0112
_LYING = (5, 6, 7, 8)


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[Image.Image]:
    """The picture in file `path`, of several the first, not yet decoded; with its pixels and its notes as they lie.

    Raises `Fault` DAT06, which names the file and what is wrong with it, also for what is met while it is open.
    """
    try:
        # Given a path, Pillow 13 maps uncompressed TIFF files into memory, and scrambles those that lie on their side.
        with open_file(path) as file, Image.open(file) as image:
            _check_pixels(path, _length(file), *image.size)
            yield image
    except NoScale as error:
        raise _unreadable(path, str(error)) from error
    except DECODE_ERRORS as error:
        raise _unreadable(path, _reason(path, error)) from error


def _length(file: BinaryIO) -> int:
    """In bytes; where it stands in the file stays."""
    here = file.tell()
    length = file.seek(0, os.SEEK_END)
    file.seek(here)
    return length


def decode(
    path: str | os.PathLike[str], at_least: tuple[int, int] | None = None, icc: ColourManagement = "convert"
) -> Image.Image:
    """The picture in file `path` as 8-bit sRGB, upright, transparent parts over white; of several the first.

    `at_least` (width, height) allows a smaller picture that still covers so much: a JPEG decodes to 1/2, 1/4 or 1/8 of
    its size in a fraction of the time. `icc`: whether a profile in the file is heeded. Raises `Fault` DAT06, which
    names the file and what is wrong with it.
    """
    with opened(path) as image:
        if at_least is not None and image.format in ("JPEG", "MPO"):
            image.draft(None, at_least[::-1] if _lies(image) else at_least)
        return to_rgb(upright(image), icc)


def header_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """(width, height) of the upright picture in file `path`, from its header alone. Raises `Fault` DAT06."""
    with opened(path) as image:
        width, height = image.size
        return (height, width) if _lies(image) else (width, height)


def _unreadable(path: str | os.PathLike[str], why: str) -> Fault:
    return Fault("DAT06", f"cannot read image {os.fspath(path)}", why=why, fix="replace or remove the file")


def _check_pixels(path: str | os.PathLike[str], size: int, width: int, height: int) -> None:
    """Raise `Fault` DAT06 for a picture that would fill the memory, before it is decoded; `size` in bytes."""
    pixels = width * height
    if pixels > MOST_PIXELS or (pixels > _SUSPICIOUS_PIXELS and pixels > _MOST_PIXELS_A_BYTE * size):
        raise _unreadable(path, f"a decompression bomb: {width} x {height} pixels in a file of {size:,} bytes")


def _lies(image: Image.Image) -> bool:
    """Whether the picture's pixels are still to be turned by a quarter; of a TIFF, Pillow tells them upright."""
    try:
        return image.format != "TIFF" and image.getexif().get(_ORIENTATION) in _LYING
    except DECODE_ERRORS:  # broken notes, as in `upright`
        return False


def upright(image: Image.Image) -> Image.Image:
    """The same picture, decoded, and turned as the camera was held."""
    image.load()
    with suppress(*DECODE_ERRORS):  # a camera's broken notes say nothing of the direction, and the pixels are sound
        ImageOps.exif_transpose(image, in_place=True)  # a copy would lose what the file says of its pixels
    return image


def fit(image: Image.Image, size: tuple[int, int] | None, crop: bool, resampling: Resampling) -> Image.Image:
    """The middle of `image` (all of it without `crop`) as `size` = (width, height) pixels.

    `size` None keeps the scale and crops to a square.
    """
    box = cut_box(image.size, size, crop)
    if size is None:
        return image.crop(box)
    return image.resize(size, resampling, box=box, reducing_gap=3.0)


def cut_box(picture: tuple[int, int], size: tuple[int, int] | None, crop: bool) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of what `fit` keeps of a picture (width, height), in its own pixels."""
    return centre_box(*picture, *(size or (1, 1))) if crop else (0, 0, *picture)


def centre_box(width: int, height: int, across: int = 1, down: int = 1) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of the largest part in the middle with shape `across` : `down`, in pixels."""
    wide = min(width, max(1, round(height * across / down)))
    high = min(height, max(1, round(width * down / across)))
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high


def to_bytes(image: Image.Image) -> Tensor:
    """(h, w, 3) uint8 from an 8-bit RGB picture; (h, w) from one in greyscale."""
    return torch.from_numpy(np.array(image))


def flip(image: Tensor) -> Tensor:
    """(h, w, 3) mirrored left to right."""
    return image.flip(1)


def _reason(path: str | os.PathLike[str], error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno is not None:
        return error.strerror or str(error)
    with open_file(path) as file:
        start = file.read(64)
    if not start:
        return "empty file (0 bytes)"
    kind = next((kind for magic, kind in _SIGNATURES.items() if start.startswith(magic)), None)
    unidentified = isinstance(error, Image.UnidentifiedImageError)
    if kind is not None:
        return f"truncated or damaged {kind} file" + (", or of a kind not known" if unidentified else f": {error}")
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
