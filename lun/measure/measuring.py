"""From samples and data to numbers, and to pairs of a sample and the picture that it is nearest to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lun.data.dataset_protocol import DatasetAccess
from lun.data.images.decode import decode
from lun.data.whole_pictures import whole_pictures
from lun.features.distances import NearestFeatures
from lun.features.scoring import Encoders, nearest_pictures, scores_of
from lun.measure.compared_data import SIDE, ComparedData
from lun.measure.sampled_folder import SampledFile
from lun.previews.grid import grid

SHOWN, TILE = 12, 160


@dataclass(frozen=True)
class NearPair:
    """A sample and the picture of the data that looks most like it, by the cosine of their features."""

    cosine: float
    sample: Path
    picture: str


@dataclass(frozen=True)
class MeasuredSamples:
    """numbers   by name, see `lun.features.scoring.scores_of`
    compared  how many pictures of the data
    pairs     the most alike first
    sheet     the first of these side by side
    """

    files: Sequence[SampledFile]
    numbers: dict[str, float]
    compared: int = 0
    pairs: list[NearPair] = field(default_factory=list)
    sheet: Image.Image | None = None


def measured(
    files: Sequence[SampledFile], encoders: Encoders, recipe: Mapping[str, Any] | None, split: str, most: int
) -> MeasuredSamples:
    """The numbers of samples; `recipe` is that of the data, of which `most` evenly spread pictures are compared.

    Raises `Fault` DAT02 for less than two of either, DAT06 for what cannot be read.
    """
    prompts = [one.prompt for one in files if one.prompt is not None]
    captions = encoders.of_captions(prompts) if len(prompts) == len(files) else None
    samples = encoders.of_pictures(decode(one.path, (SIDE, SIDE)) for one in files)
    if recipe is None:
        return MeasuredSamples(files, scores_of(samples, None, captions))
    compared = ComparedData.of(recipe, split, most, len(files))
    dataset, chosen = compared.dataset, compared.chosen
    data = compared.features(encoders)
    nearest = nearest_pictures(samples, data)
    order = nearest.cosine.argsort(descending=True, stable=True).tolist()
    access = DatasetAccess(dataset)
    pairs = [NearPair(round(c, 5), files[i].path, access.path(chosen[j])) for i, c, j in _rows(nearest, order)]
    sheet = _sheet(files, dataset, [(i, c, chosen[j]) for i, c, j in _rows(nearest, order[:SHOWN])])
    return MeasuredSamples(files, scores_of(samples, data, captions), len(chosen), pairs, sheet)


def _rows(nearest: NearestFeatures, order: Sequence[int]) -> list[tuple[int, float, int]]:
    cosine, index = nearest.cosine.tolist(), nearest.index.tolist()
    return [(place, cosine[place], index[place]) for place in order]


def _sheet(files: Sequence[SampledFile], dataset: Any, rows: Sequence[tuple[int, float, int]]) -> Image.Image:
    """Each sample, and to its right the picture that it is nearest to."""
    theirs = whole_pictures(dataset, [index for _, _, index in rows], TILE)
    tiles, captions = [], []
    for (place, cosine, index), picture in zip(rows, theirs, strict=True):
        path = files[place].path
        tiles += [_tile(decode(path, (TILE, TILE))), _tile(picture)]
        captions += [f"{path.name} {cosine:.3f}", Path(DatasetAccess(dataset).path(index)).name]
    return grid(np.stack(tiles), 6, captions)


def _tile(picture: Image.Image) -> np.ndarray:
    """(TILE, TILE, 3) bytes, white beside it."""
    picture.thumbnail((TILE, TILE))
    tile = Image.new("RGB", (TILE, TILE), "white")
    tile.paste(picture, ((TILE - picture.width) // 2, (TILE - picture.height) // 2))
    return np.asarray(tile)
