"""The user's own folder of images with captions."""

import hashlib
import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.captions import CaptionReader
from lun.data.cut import cover, picture_size
from lun.data.example import Example
from lun.data.flat import Index, file_size, read_flat
from lun.data.images import RESAMPLING, Interpolation, decode, fit, flip, to_array
from lun.data.masks import MaskKind, mask_file, read_mask
from lun.data.order import Size


class Local:
    """Images and captions under `data_root`: `img/` + `txt/`, `images/` + `captions/`, or side by side in one folder.

    size                  pixels of the square that the network sees; None keeps each picture's scale
    interpolation         how pictures are resized
    flip_p                probability of mirroring left to right, drawn anew whenever an example comes round
    crop                  cut out the centre square first; without it a picture is squeezed into the square
    limit_images          use only so many, always the same ones whatever else lies in the folder's listing
    default_caption       text for images without a caption file; None leaves those images out
    allow_empty_captions  keep images without a caption file, with an empty caption
    mask                  where pictures count in the loss: `folder` reads `mask/NAME.png`, whose white counts; `alpha`
                          takes what is opaque; a picture without either counts everywhere
    mode                  accepted for files of 2022 (`train` or `val`), without effect
    """

    def __init__(
        self,
        data_root: str,
        size: int | None = 512,
        interpolation: Interpolation = "bicubic",
        flip_p: float = 0.5,
        crop: bool = True,
        limit_images: int | None = None,
        default_caption: str | None = None,
        allow_empty_captions: bool = False,
        mask: MaskKind | None = None,
        mode: str | None = None,
    ) -> None:
        _check(size, interpolation, flip_p, limit_images)
        self.size = size
        self.resampling = RESAMPLING[interpolation]
        self.flip_p = flip_p
        self.crop = crop
        self.mask = mask
        self.default_caption = default_caption or ""
        self.read_caption = CaptionReader()
        required = default_caption is None and not allow_empty_captions
        self.index = _limited(read_flat(data_root, captions_required=required), limit_images)

    def __len__(self) -> int:
        return len(self.index)

    def example(self, index: int, draws: Draws, size: Size | None = None) -> Example:
        """Image (size, size, 3) float32 in [-1, 1] and caption number `index`, mirrored as `draws` decide.

        With `size` (width, height) it is cut to that. Raises `Fault` DAT06 for a broken image, DAT04 for a caption that
        cannot be read.
        """
        return {**self.picture(index, self.flipped(draws), size), "caption": self.caption(index, draws)}

    def picture(self, index: int, flipped: bool, size: Size | None = None) -> Example:
        """Everything of example `index` that its pixels decide: image and mask."""
        path = self.path(index)
        cut = self._cut(size)
        found: Example = {"image": to_array(cut(decode(path)))}  # type: ignore[typeddict-item]  # the caption comes later
        if self.mask and (mask := read_mask(path, self.index.root, self.mask, cut)) is not None:
            found["mask"] = mask.flip(1) if flipped else mask
        if flipped:
            found["image"] = flip(found["image"])
        return found

    def flipped(self, draws: Draws) -> bool:
        """Whether the example with these draws is mirrored."""
        return torch.rand((), generator=draws("flip")).item() < self.flip_p

    def preparation(self) -> str:
        """What the pixels depend on besides the file, the mirroring and an asked size."""
        return f"size={self.size} crop={self.crop} resampling={self.resampling.name} mask={self.mask}"

    def files(self, index: int) -> list[Path]:
        """Every file that the pixels of example `index` come from."""
        path = self.path(index)
        beside = mask_file(path, self.index.root) if self.mask == "folder" else None
        return [path, beside] if beside else [path]

    def path(self, index: int) -> Path:
        return self._path(self.index.images[index])

    def sizes(self) -> np.ndarray:
        """(n, 2) width and height of every picture, upright; only headers are read. Raises `Fault` DAT06."""
        return np.array([picture_size(self.path(index)) for index in range(len(self))], dtype=np.int32)

    def _cut(self, size: Size | None) -> Callable[[Image.Image], Image.Image]:
        if size is None:
            return lambda image: fit(image, self.size, self.crop, self.resampling)
        return lambda image: cover(image, size, self.resampling)

    def caption(self, index: int, draws: Draws | None = None) -> str:
        """The text of example `index`, read from its file at each call."""
        path = self.index.captions[index]
        return self.default_caption if path is None else self.read_caption(self._path(path))

    def fingerprint(self) -> str:
        """sha256 over path, size in bytes and repeats of every image: the same for a copy of the folder elsewhere."""
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256()
        for path in self.index.images:
            digest.update(os.fsencode(path) + f"\0{file_size(self.index.root, path)}\0{1}\n".encode())
        return digest.hexdigest()

    def _path(self, relative: str) -> Path:
        return self.index.root / relative


def _check(size: int | None, interpolation: str, flip_p: float, limit_images: int | None) -> None:
    allowed = [
        (size is None or size > 0, "size", size, "a number of pixels above 0, or null"),
        (interpolation in RESAMPLING, "interpolation", interpolation, ", ".join(RESAMPLING)),
        (0 <= flip_p <= 1, "flip_p", flip_p, "a probability, 0 to 1"),
        (limit_images is None or limit_images > 0, "limit_images", limit_images, "a number above 0, or null"),
    ]
    for holds, name, value, kind in allowed:
        if not holds:
            raise Fault("CFG08", f"{name} of lun.data.local.Local cannot be {value!r}", why=f"it takes {kind}")


def _limited(index: Index, limit: int | None) -> Index:
    """A subset that depends on the names alone, so that it stays put when a few files come or go."""
    if limit is None or limit >= len(index):
        return index
    lot = [hashlib.sha256(b"limit_images/" + os.fsencode(path)).digest() for path in index.images]
    return index.only(sorted(sorted(range(len(index)), key=lot.__getitem__)[:limit]))
