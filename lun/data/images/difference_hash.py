"""A hash of what is seen of a picture, alike for pictures that look alike (difference hash)."""

import os

import numpy as np
from PIL import Image

from ldm.errors import Fault
from lun.data.images.decode import decode


def difference_hash(path: os.PathLike[str]) -> int | None:
    """64 bits, whether each of 8 x 8 places is brighter than its left neighbour; None for what is not to be compared.

    Such are files that cannot be read, and pictures in which hardly anything differs.
    """
    try:
        small = decode(path, (72, 64)).convert("L").resize((9, 8), Image.Resampling.LANCZOS, reducing_gap=3.0)
    except Fault:
        return None
    pixels = np.asarray(small, np.int16)
    if np.ptp(pixels) < 8:
        return None
    return int.from_bytes(np.packbits(pixels[:, 1:] > pixels[:, :-1]).tobytes(), "big")
