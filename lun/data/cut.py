"""Cutting a picture to a bucket's size: cover it, keep the middle."""

from pathlib import Path

from PIL import Image
from PIL.Image import Resampling

from ldm.errors import Fault
from lun.data.order import Size


def cover(image: Image.Image, size: Size, resampling: Resampling) -> Image.Image:
    """The largest part in the middle of `image` that has the shape of `size`, as size pixels."""
    return image.resize(size, resampling, box=middle(image.size, size), reducing_gap=3.0)


def middle(picture: Size, size: Size) -> tuple[float, float, float, float]:
    """(left, top, right, bottom), in pixels and parts of them: what `cover` keeps of a picture."""
    scale = min(picture[0] / size[0], picture[1] / size[1])
    width, height = size[0] * scale, size[1] * scale
    left, top = (picture[0] - width) / 2, (picture[1] - height) / 2
    return left, top, min(left + width, picture[0]), min(top + height, picture[1])


def picture_size(path: Path) -> Size:
    """(width, height) of the picture in a file, upright; reads its header alone. Raises `Fault` DAT06."""
    try:
        with Image.open(path) as image:
            width, height = image.size
            turned = image.getexif().get(_ORIENTATION, 1) in _ON_ITS_SIDE
    except (OSError, ValueError, SyntaxError) as error:
        raise Fault("DAT06", f"cannot read image {path}", why=str(error), fix="replace or remove the file") from error
    return (height, width) if turned else (width, height)


_ORIENTATION, _ON_ITS_SIDE = 0x0112, (5, 6, 7, 8)
