"""Masks: where a picture counts in the loss, from a grey picture beside it or from its own alpha channel."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ldm.errors import Fault
from lun.data.colours import eight_bits
from lun.data.images import decode, opened, upright

MaskKind = Literal["folder", "alpha"]

FOLDER = "mask"
"""Beside the folder of the pictures, or in it where they lie in the root itself."""

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


def read_mask(path: Path, root: Path, kind: MaskKind, cut: Callable[[Image.Image], Image.Image]) -> Tensor | None:
    """(h, w) in [0, 1] for the picture at `path`, white is 1; None where there is no mask.

    cut  what is done to the picture, so that the mask is done the same to. Raises `Fault` DAT06 for a broken file.
    """
    found = _alpha(path) if kind == "alpha" else _beside(path, root)
    if found is None:
        return None
    return torch.from_numpy(np.array(cut(found.convert("L")))).float().div_(255)


def require_masks(root: Path, kind: MaskKind | None) -> None:
    """Raise `Fault` CFG08 where masks are asked for and there is no folder of them."""
    if kind == "folder" and not (root / FOLDER).is_dir():
        raise Fault(
            "CFG08",
            f"mask: folder was asked for, and {root} has no folder {FOLDER}",
            why="every picture would count everywhere, as without masks",
            fix=f"{root / FOLDER}/NAME.png for each picture, white where it counts; or without mask",
        )


def mask_file(path: Path, root: Path) -> Path | None:
    """The mask of `img/a.jpg` is `mask/a.png`, that of `a.jpg` in the root `mask/a.png` as well; any image format."""
    inside = path.relative_to(root).parts[:-1]
    folder = root.joinpath(FOLDER, *inside[1:])
    return next((file for suffix in SUFFIXES if (file := folder / (path.stem + suffix)).is_file()), None)


def _beside(path: Path, root: Path) -> Image.Image | None:
    file = mask_file(path, root)
    return None if file is None else decode(file)


def _alpha(path: Path) -> Image.Image | None:
    with opened(path) as image:
        turned = upright(image)
        return eight_bits(turned).convert("RGBA").getchannel("A") if turned.has_transparency_data else None
