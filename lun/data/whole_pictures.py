"""The pictures of any dataset as whole pictures, wherever they lie: in files, in shards, or made by code alone."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from PIL import Image
from torch import as_tensor

from ldm.diffusion.draws import Draws
from ldm.models.pixels import centred
from lun.data.dataset_protocol import DatasetAccess
from lun.data.images.decode import decode

FETCHED = 64
"""Pictures of a packed set that are asked for at once."""


def whole_pictures(dataset: Any, indices: Sequence[int], at_least: int) -> Iterator[Image.Image]:
    """Each picture upright in sRGB, at least `at_least` pixels a side where its file has as many; else as it is read
    for training. Raises `Fault` DAT06 for one that cannot be read."""
    access = DatasetAccess(dataset)
    for start in range(0, len(indices), FETCHED):
        some = indices[start : start + FETCHED]
        access.fetch(some)
        for index in some:
            yield whole_picture(dataset, index, at_least)


def whole_picture(dataset: Any, index: int, at_least: int) -> Image.Image:
    """One of `whole_pictures`, of a set that was asked to fetch it."""
    if hasattr(dataset, "located"):  # of several sets
        which, own = dataset.located(index)
        return whole_picture([*dataset.sets.values()][which], own, at_least)
    access = DatasetAccess(dataset)
    file: os.PathLike[str] | None = next(iter(access.files(index)), None)
    if file is None and access.has("encoded"):
        file = dataset.encoded(index)
    if file is not None:
        return decode(file, (at_least, at_least))
    pixels = centred(as_tensor(access.read(index, Draws(0, index))["image"])).float()
    return Image.fromarray(((pixels.clamp(-1, 1) + 1) * 127.5).round().byte().numpy())
