"""Masks: where a picture counts in the loss, from a grey picture beside it or from its own alpha channel."""

import os
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Literal

from PIL import Image
from torch import Tensor

from ldm.errors import Fault
from lun.data.images.colours import eight_bits
from lun.data.images.decode import decode, opened, to_bytes, upright
from lun.data.index.listing import Tree, composed, leads_out, stem

MaskKind = Literal["folder", "alpha"]

FOLDER = Tree.MASKS
"""Beside the folder of the pictures, or in it where they lie in the root itself."""

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp")


def read_mask(
    picture: str | os.PathLike[str],
    beside: str | os.PathLike[str] | None,
    kind: MaskKind,
    cut: Callable[[Image.Image], Image.Image],
) -> Tensor | None:
    """(h, w) uint8 for the file `picture`, white is 255; None where there is no mask.

    beside  the file of its mask, for `folder`; None: it has none
    cut     what is done to the picture, so that the mask is done the same to

    Raises `Fault` DAT06 for a broken file.
    """
    mask = _alpha(picture) if kind == "alpha" else None if beside is None else decode(beside)
    if mask is None:
        return None
    return to_bytes(cut(mask.convert("L")))


def require_masks(root: Path, kind: MaskKind | None) -> None:
    """Raise `Fault` CFG08 where masks are asked for and there is no folder of them."""
    if kind == "folder" and not (root / FOLDER).is_dir():
        raise Fault(
            "CFG08",
            f"mask: folder was asked for, and {root} has no folder {FOLDER}",
            why="every picture would count everywhere, as without masks",
            fix=f"{root / FOLDER}/NAME.png for each picture, white where it counts; or without mask",
        )


def mask_file(path: Path, root: Path, follow_links: bool = False) -> Path | None:
    """The mask of `cats/a.jpg` is `mask/cats/a.png`, else `mask/a.png`, as that of `img/a.jpg`; any image format."""
    inside = path.relative_to(root).parts[:-1]
    folders = [root.joinpath(FOLDER, *parts) for parts in dict.fromkeys((inside, inside[1:]))]
    stems = dict.fromkeys((path.stem, composed(path.stem), unicodedata.normalize("NFD", path.stem)))
    files = (folder / (stem + suffix) for folder in folders for stem in stems for suffix in SUFFIXES)
    first = next((file for file in files if file.is_file()), None)
    return None if first is None or (not follow_links and leads_out(first, os.path.realpath(root))) else first


def masks_without_pictures(root: Path, names: Iterable[str]) -> list[str]:
    """Paths of the files below `mask/` that belong to none of the pictures `names`, all of them below the root."""
    pictures, known = set(), set()
    for name in names:
        pictures.add(name)
        inside = name.split("/")
        own = composed(stem(inside.pop()))
        known |= {("/".join(inside), own), ("/".join(inside[1:]), own)}
    found = (path.relative_to(root / FOLDER) for path in sorted((root / FOLDER).rglob("*")) if path.is_file())
    return [
        f"{FOLDER}/{path.as_posix()}"
        for path in found
        if path.suffix.lower() in SUFFIXES
        and (path.parent.as_posix().removeprefix("."), composed(stem(path.name))) not in known
        and f"{FOLDER}/{path.as_posix()}" not in pictures
    ]


def _alpha(path: str | os.PathLike[str]) -> Image.Image | None:
    with opened(path) as image:
        turned = upright(image)
        return eight_bits(turned).convert("RGBA").getchannel("A") if turned.has_transparency_data else None
