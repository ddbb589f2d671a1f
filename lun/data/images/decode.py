"""From an image file to the bytes of its picture: decode, turn upright, colours to sRGB, crop and resize."""

import os
import struct
import zlib
from collections.abc import Callable, Iterator
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

# Pillow's limit on pixels raises at 179 million, which a large scan has; `_check_pixels` recognises bombs better.
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
    """The picture of `decode_sized` alone; `at_least` (width, height) for whatever size it has."""
    return decode_sized(path, lambda whole: at_least, icc)[0]


def decode_sized(
    path: str | os.PathLike[str],
    at_least: Callable[[tuple[int, int]], tuple[int, int] | None] = lambda whole: None,
    icc: ColourManagement = "convert",
) -> tuple[Image.Image, tuple[int, int]]:
    """The picture in file `path` as 8-bit sRGB, upright, transparent parts over white; of several the first.

    Beside it the (width, height) that it has in the file, upright. What `at_least` makes of that allows a smaller
    picture that still covers so much: a JPEG decodes to 1/2, 1/4 or 1/8 of its size in a fraction of the time. `icc`:
    whether a profile in the file is heeded. Raises `Fault` DAT06, which names the file and what is wrong with it.
    """
    with opened(path) as image:
        whole = _upright_size(image)
        enough = at_least(whole)
        if enough is not None and image.format in ("JPEG", "MPO"):
            image.draft(None, enough[::-1] if _lies(image) else enough)
        return to_rgb(upright(image), icc), whole


def header_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """(width, height) of the upright picture in file `path`, from its header alone. Raises `Fault` DAT06."""
    with opened(path) as image:
        return _upright_size(image)


def _upright_size(image: Image.Image) -> tuple[int, int]:
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
    """Whether the picture's pixels are still to be turned by a quarter; of a TIFF, Pillow gives them upright."""
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


def fit(
    image: Image.Image,
    target: tuple[int, int] | None,
    box: tuple[float, float, float, float],
    resampling: Resampling,
    exact: bool = False,
) -> Image.Image:
    """What lies in `box` (left, top, right, bottom) of `image`, as `target` = (width, height) pixels.

    `target` None keeps the scale. Unless `exact`, what is reduced much is averaged to 3 times the size first.
    """
    if target is None:
        left, top, right, bottom = map(round, box)
        return image.crop((left, top, right, bottom))
    return image.resize(target, resampling, box=box, reducing_gap=None if exact else 3.0)


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
