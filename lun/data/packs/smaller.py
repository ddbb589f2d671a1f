"""Pictures made smaller before they are packed."""

import io
import os

from PIL import Image
from PIL.Image import Resampling

from lun.data.images.colours import eight_bits, to_rgb
from lun.data.images.decode import opened, upright

QUALITY = 95
LOSSY = ("jpg", "jpeg", "webp")


def made_smaller(file: str | os.PathLike[str], suffix: str, longest: int) -> tuple[bytes, str]:
    """(content, extension) of the picture in `file` with its longer side of `longest` pixels, upright, sRGB.

    What was JPEG or WebP becomes JPEG (quality 95, full colour), all else PNG, as does what is transparent. Raises
    `Fault` DAT06.
    """
    with opened(file) as image:
        turned = upright(image)
        clear = turned.has_transparency_data
        profile = turned.info.get("icc_profile") if clear else None
        plain = eight_bits(turned).convert("RGBA") if clear else to_rgb(turned)
        kind = "JPEG" if suffix in LOSSY and not clear else "PNG"
        made = io.BytesIO()
        scale = longest / max(plain.size)
        small = plain.resize(_scaled(plain, scale), Resampling.LANCZOS, reducing_gap=3.0)
        if kind == "JPEG":
            small.save(made, kind, quality=QUALITY, subsampling=0)
        else:
            small.save(made, kind, icc_profile=profile)
    return made.getvalue(), "jpg" if kind == "JPEG" else "png"


def _scaled(image: Image.Image, scale: float) -> tuple[int, int]:
    return max(1, round(image.width * scale)), max(1, round(image.height * scale))
