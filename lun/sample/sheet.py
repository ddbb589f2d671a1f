"""The contact sheet: all pictures of a command on one, small, each with its prompt and seed."""

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image

from lun.previews.grid import WHITE, fitted, grid
from lun.sample.pictures import Picture

TILE = 256  # pixels
COLUMNS = 8


def contact_sheet(images: Sequence[Image.Image], pictures: Sequence[Picture]) -> Image.Image:
    """The pictures side by side on white, at most eight across, about square as a whole."""
    tiles = [fitted(image, TILE if max(image.size) > TILE else max(96, image.width)) for image in images]
    size = max(tile.width for tile in tiles), max(tile.height for tile in tiles)
    captions = [f"{picture.prompt} ({picture.seed})" for picture in pictures]
    pixels = np.stack([np.asarray(_centred(tile, size)) for tile in tiles])
    return grid(pixels, min(COLUMNS, math.ceil(math.sqrt(len(tiles)))), captions)


def _centred(tile: Image.Image, size: tuple[int, int]) -> Image.Image:
    sheet = Image.new("RGB", size, WHITE)
    sheet.paste(tile, ((size[0] - tile.width) // 2, (size[1] - tile.height) // 2))
    return sheet
