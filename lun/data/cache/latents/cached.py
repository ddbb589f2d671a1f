"""A dataset whose pictures are moments from the cache; captions, flips and weights are drawn as ever."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.cache.latents.contents import Contents
from lun.data.cache.shards.shard_files import ENTRY_BYTES, CacheShards
from lun.data.dataset_protocol import CACHED_LATENTS, DatasetAccess
from lun.data.example import Example
from lun.data.order.law import Size

UNREADABLE = bytes(ENTRY_BYTES)
"""The name of an entry whose file cannot be read; no cache holds it."""


@dataclass(frozen=True)
class WantedEntries:
    """The entries of one size: `examples` (m,) sorted indices and the `names` (m, 2, 16) of both ways round.

    Where a dataset never mirrors, or always does, the other name is `UNREADABLE`.
    """

    examples: np.ndarray
    names: np.ndarray


def require_cacheable(dataset: Any) -> None:
    """Raise `Fault` CFG08 for a dataset whose pictures cannot be had without its random choices."""
    access = DatasetAccess(dataset)
    missing = [name for name in CACHED_LATENTS if not access.has(name)]
    if not access.has("path") and not access.has("fingerprint"):
        missing.append("path or fingerprint")
    if missing:
        raise Fault(
            "CFG08",
            f"{access.name} cannot be cached",
            where="data.params.cache",
            why=f"it has no {', no '.join(missing)}",
            fix="data.params.cache=false",
        )
    if access.varied:
        raise Fault(
            "CFG08",
            "pictures whose cut, colours or turn are drawn anew cannot be cached",
            where="data.params.cache",
            why="each would be cut once and for all",
            fix="data.params.cache=false, or without crop: random, crop: {resized: ...}, colour_jitter and rotate",
        )


def wanted_entries(
    dataset: Any, sizes: Mapping[Size | None, np.ndarray], contents: Contents
) -> dict[Any, WantedEntries]:
    """The entries that `dataset` needs for the examples of each size: named by file, preparation, size and flip."""
    access, preparation = DatasetAccess(dataset), dataset.preparation()
    fingerprint = cache(access.fingerprint)
    hashes: dict[int, bytes | None] = {}

    def name(index: int, size: Size | None, flipped: bool) -> bytes:
        if index not in hashes:
            hashes[index] = _content(access, index, contents, fingerprint)
        content = hashes[index]
        if content is None:
            return UNREADABLE
        variant = f"{preparation}\0{size}\0{flipped}".encode()
        return hashlib.sha256(content + variant).digest()[:ENTRY_BYTES]

    entries = {}
    ways = ways_round(dataset)
    for size, examples in sizes.items():
        members = np.unique(examples)
        names = [[name(int(i), size, way) if way in ways else UNREADABLE for way in (False, True)] for i in members]
        packed = np.frombuffer(b"".join(b"".join(row) for row in names), np.uint8)
        entries[size] = WantedEntries(members, packed.reshape(-1, 2, ENTRY_BYTES))
    return entries


def ways_round(dataset: Any) -> tuple[bool, ...]:
    """Whether pictures are met as they are (False), mirrored (True), or both."""
    probability = getattr(dataset, "flip_p", 0.5)
    return (False,) if probability <= 0 else (True,) if probability >= 1 else (False, True)


def _content(access: DatasetAccess, index: int, contents: Contents, fingerprint: Callable[[], str]) -> bytes | None:
    """A hash (32 bytes) of what the pixels come from: the files; without any, the dataset itself and the index."""
    files = access.files(index)
    if not files:
        return hashlib.sha256(f"{access.name}\0{fingerprint()}\0{index}".encode()).digest()
    try:
        return contents(files)
    except Fault:
        return None  # reported and replaced when its turn comes, as every bad picture


class CachedDataset:
    """`dataset` with `moments` (and `mask`, at their scale) in place of `image`."""

    def __init__(self, dataset: Any, wanted: Mapping[Any, WantedEntries], shards: CacheShards) -> None:
        self.dataset = dataset
        self.shards = shards
        self.examples = {size: entries.examples for size, entries in wanted.items()}
        self.places = {
            size: shards.locate(entries.names.reshape(-1, ENTRY_BYTES)).reshape(-1, 2, 2)
            for size, entries in wanted.items()
        }
        if hasattr(dataset, "sizes"):
            dataset.sizes()  # read once here, and not by every worker at every example

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        """What the dataset offers besides: sizes, repeats, weights, path."""
        if name in ("repeats", "weights", "path", "paths", "fingerprint"):
            return getattr(self.dataset, name)
        raise AttributeError(name)

    def sizes(self) -> np.ndarray:
        sizes: np.ndarray = self.dataset.sizes()
        return sizes

    def example(self, index: int, draws: Draws, size: Size | None = None) -> Example:
        """Raises `Fault` DAT06 for a picture that could not be read when the cache was filled."""
        row = int(np.searchsorted(self.examples[size], index))
        flipped = self.dataset.flipped(draws)
        place = self.places[size][row, int(flipped)]
        if place[0] < 0:
            path = DatasetAccess(self.dataset).path(index)
            raise Fault("DAT06", f"cannot read image {path}", why="it could not be read when the cache was filled")
        tensors: Any = {name: tensor.float() for name, tensor in self.shards.read(place).items()}
        if hasattr(self.dataset, "placement"):
            tensors |= self.dataset.placement(index, flipped, size)
        further = self.dataset.further_captions(index) if hasattr(self.dataset, "further_captions") else {}
        return {**tensors, "caption": self.dataset.caption(index, draws), **further}
