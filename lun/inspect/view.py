"""What a report asks of a dataset: what one does not offer by its protocol is left out of the report."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from ldm.models.pixels import centred
from lun.data.dataset_protocol import CACHED_LATENTS, DatasetAccess
from lun.data.images.colours import ColourManagement
from lun.data.images.cuts import centre_box
from lun.data.images.loss_masks import masks_without_pictures
from lun.data.index.selection import Selection
from lun.data.keyed import check_example
from lun.data.metadata.tag_column import TagColumn
from lun.data.metadata.waterfall import Waterfall
from lun.data.order.law import Key, Size
from lun.data.packs.mixing import ShardMixing

T = TypeVar("T")

_THREADS = 8
_FETCHED = 64
"""Pictures of a packed set that are asked for at once."""
READ_AT_MOST = 3_000
"""Examples that are read whole where a dataset does not give sizes or captions without opening pictures."""


class DatasetView:
    """A dataset as its report sees it; `selection` is that of a folder (None elsewhere): what was left out and why."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.access = DatasetAccess(dataset)
        self.selection: Selection | None = getattr(dataset, "selection", None)
        self.root: Path = getattr(dataset, "root", Path())
        self.icc: ColourManagement = getattr(dataset, "icc", "convert")
        self.crop = bool(getattr(dataset, "crop", False))
        self.rules: dict[str, Any] = getattr(dataset, "rules", {})
        self.has_files = bool(self.access.files(0)) if len(self) else False
        self.has_pictures = self.has_files or self.access.has("encoded")

    def __len__(self) -> int:
        return len(self.access)

    @property
    def layout(self) -> str:
        """Where the examples come from, in words."""
        return self.selection.contents.words if self.selection else f"{self.access.name}, {len(self):,} examples"

    @property
    def waterfall(self) -> Waterfall:
        """What filters left; everything, where there are none."""
        return (
            self.selection.waterfall if self.selection else Waterfall(len(self), (), np.full(len(self), -1, np.int16))
        )

    @cached_property
    def unread(self) -> Sequence[tuple[str, str]]:
        """(path, reason) of files beside the pictures that have no use, masks among them."""
        if self.selection is None:
            return ()
        masks = masks_without_pictures(self.root, self.selection.contents.table.path)
        return (*self.selection.contents.unread, *((path, "mask without a picture") for path in masks))

    @property
    def mixing(self) -> ShardMixing | None:
        """How well the shards of a packed set are mixed; None for what lies in none."""
        found: ShardMixing | None = self.dataset.mixing() if self.access.has("mixing") else None
        return found

    @property
    def window(self) -> int:
        """Of how many shards a packed set is mixed; 0: of all."""
        return getattr(self.dataset, "window", None) or 0

    @property
    def side(self) -> int | None:
        """Pixels of the square that pictures are cut to; None where each has its own size."""
        size = getattr(self.dataset, "size", None)
        return size if isinstance(size, int) else None

    @cached_property
    def sizes(self) -> np.ndarray:
        """(m, 2) width and height, 0 for what cannot be read: of all, or of those that are read for it."""
        if self.access.has("sizes"):
            return np.asarray(self.dataset.sizes())
        return np.array([self._size(index) for index in self.spread(READ_AT_MOST)], np.int64).reshape(-1, 2)

    def _size(self, index: int) -> tuple[int, int]:
        try:
            height, width = self.example(index, Draws(0, index))["image"].shape[:2]
        except Fault:
            return 0, 0
        return int(width), int(height)

    def spread(self, most: int) -> range:
        """At most so many indices, spread evenly."""
        return range(0, len(self), max(1, -(-len(self) // most)))

    def repeats(self) -> np.ndarray:
        """(n,) how often each example comes in one epoch."""
        repeats = self.access.repeats()
        return np.ones(len(self), np.int64) if repeats is None else repeats

    def name(self, index: int) -> str:
        """The path below the dataset's folder, else whatever names it."""
        return str(self.dataset.name(index)) if self.selection else self.access.path(index)

    def names(self) -> list[str]:
        return self.dataset.names() if self.selection else [self.access.path(index) for index in range(len(self))]

    def file(self, index: int) -> os.PathLike[str]:
        """The picture's own file, or what stands for it in a packed set; only for those that `has_pictures`."""
        if self.has_files:
            return self.access.files(index)[0]
        packed: os.PathLike[str] = self.dataset.encoded(index)
        return packed

    def over_files(self, indices: Sequence[int], look: Callable[[int], T]) -> list[T]:
        """What `look` finds of each index, where it opens files: beside one another, or of a packed set, whose reader
        is for one thread, one by one after they were fetched together."""
        if self.has_files:
            with ThreadPoolExecutor(_THREADS) as threads:
                return list(threads.map(look, indices))
        found: list[T] = []
        for start in range(0, len(indices), _FETCHED):
            self.access.fetch(indices[start : start + _FETCHED])
            found += map(look, indices[start : start + _FETCHED])
        return found

    def file_bytes(self) -> list[int]:
        """Size of each example's file; -1 for one that cannot be looked at."""
        if self.access.has("file_bytes"):
            sizes: list[int] = self.dataset.file_bytes().tolist()
            return sizes
        return [_bytes_of(self.file(index)) for index in range(len(self))]

    def example(self, index: int, draws: Draws, size: Size | None = None) -> dict[str, Any]:
        """One example as training gets it. Raises `Fault` DAT08 for what is none."""
        example = dict(self.access.read(index, draws, size))
        check_example(example, f"{self.access.name}, index {index}")
        example["image"] = _numbers(example["image"])
        return example

    def drawn(self, index: int, draws: Sequence[Draws], size: Size | None) -> tuple[np.ndarray, list[tuple[str, bool]]]:
        """The picture (h, w, 3) in [-1, 1] of the first of `draws`, and (caption, mirrored) of each of them."""
        if self.access.has(*CACHED_LATENTS):  # one picture is opened
            shown = [(self.dataset.caption(index, one), bool(self.dataset.flipped(one))) for one in draws]
            return _numbers(self.access.picture(index, shown[0][1], size, draws[0])["image"]), shown
        examples = [self.example(index, one, size) for one in draws]
        return examples[0]["image"], [(one["caption"], False) for one in examples]

    def part(self, key: Key, draws: Draws, whole: Size, image: Size) -> tuple[int, int, int, int]:
        """(left, top, right, bottom) of what is seen as `image` (width, height), in the picture at the size `whole`."""
        if not self.access.varied:
            return centre_box(*whole, *image) if self.crop else (0, 0, *whole)
        width, height = map(int, self.dataset.sizes()[key.example])
        box = self.dataset.prepared.box((width, height), key.size or (self.side and image), draws)
        across, down = whole[0] / width, whole[1] / height
        left, top, right, bottom = box
        return round(left * across), round(top * down), round(right * across), round(bottom * down)

    @property
    def drawn_share(self) -> float:
        """Of the area of the largest cut of its shape, how much is seen on average where a smaller one is drawn."""
        crop = getattr(self.dataset, "crop", None)
        return sum(crop["resized"]) / 2 if isinstance(crop, Mapping) else 1.0

    def captions(self, seed: int, most: int) -> list[str]:
        """One draw for each of so many examples, spread evenly."""
        if self.access.has("caption"):
            step = max(1, len(self) // most)
            return [self.dataset.caption(index, Draws(seed, index)) for index in range(0, len(self), step)]
        few = self.spread(min(most, READ_AT_MOST))
        return [str(self.example(index, Draws(seed, index))["caption"]) for index in few]

    def choices(self) -> Counter[int]:
        """How many examples, of at most 3,000 that are spread evenly, have one caption to draw from, two, ..."""
        found: Counter[int] = Counter()
        for index in self.spread(READ_AT_MOST) if self.access.has("caption_count") else ():
            with suppress(Fault):  # one that cannot be read is listed elsewhere
                found[self.dataset.caption_count(index)] += 1
        return found

    @property
    def captions_drawn_anew(self) -> bool:
        """Whether a caption changes from access to access."""
        compose = getattr(self.dataset, "compose", None)
        return bool(compose is not None and compose.draws)

    def tags(self) -> TagColumn | None:
        return self.access.tags()

    def scores(self) -> np.ndarray:
        """(m,) the scores of the examples that have one."""
        if self.selection is None:
            return np.zeros(0)
        known = self.selection.table.score[self.selection.rows]
        scores: np.ndarray = known[~np.isnan(known)]
        return scores


def _numbers(image: Any) -> np.ndarray:
    """A picture of a dataset, bytes or numbers, (h, w, 3) float32 in [-1, 1]."""
    return centred(torch.as_tensor(image)).float().numpy()


def _bytes_of(path: os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return -1
