"""Loose pictures that grow, and the files of the sets that are packed of them."""

from pathlib import Path

import numpy as np
from PIL import Image

from lun.data.local import Local


def add(root: Path, numbers: range, side: int = 16) -> Local:
    """The folder with noisy pictures of these numbers more, each with a caption."""
    root.mkdir(exist_ok=True)
    for number in numbers:
        values = np.random.default_rng(number).integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(values).save(root / f"{number:03}.png")
        (root / f"{number:03}.txt").write_text(f"picture {number}")
    return Local(str(root), size=8)


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
