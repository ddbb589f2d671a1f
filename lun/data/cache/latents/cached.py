"""A dataset whose pictures are moments from the cache; captions, flips and weights are drawn as ever."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.cache.latents.contents import Contents
from lun.data.cache.latents.ways import Ways
from lun.data.cache.shards.shard_files import ENTRY_BYTES, CacheShards
from lun.data.dataset_protocol import CACHED_LATENTS, DatasetAccess
from lun.data.example import Example
from lun.data.order.law import Size

UNREADABLE = bytes(ENTRY_BYTES)
"""The name of an entry whose file cannot be read; no cache holds it."""


@dataclass(frozen=True)
class WantedEntries:
    """The entries of one size: `examples` (m,) sorted indices and the `names` (m, ways, 16) of all ways of each.

    The name of a way that is not kept is `UNREADABLE`. `contents` (m,) are numbers of what the files hold, which
    decide about variants.
    """

    examples: np.ndarray
    names: np.ndarray
    contents: np.ndarray


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


def wanted_entries(
    dataset: Any, ways: Ways, sizes: Mapping[Size | None, np.ndarray], contents: Contents
) -> dict[Any, WantedEntries]:
    """The entries that `dataset` needs for the examples of each size: named by file, preparation, size and way."""
    access, preparation = DatasetAccess(dataset), dataset.preparation()
    fingerprint = cache(access.fingerprint)
    hashes: dict[int, bytes | None] = {}

    def content(index: int) -> bytes | None:
        if index not in hashes:
            hashes[index] = _content(access, index, contents, fingerprint)
        return hashes[index]

    def name(index: int, size: Size | None, way: int) -> bytes:
        held = content(index)
        if held is None or way not in ways.kept:
            return UNREADABLE
        text = f"{preparation}\0{size}\0{ways.label(way)}".encode()
        return hashlib.sha256(held + text).digest()[:ENTRY_BYTES]

    entries = {}
    for size, examples in sizes.items():
        members = np.unique(examples)
        names = b"".join(name(int(index), size, way) for index in members for way in range(ways.count))
        packed = np.frombuffer(names, np.uint8).reshape(-1, ways.count, ENTRY_BYTES)
        numbers = [int.from_bytes((content(int(index)) or b"")[:8], "big") >> 1 for index in members]
        entries[size] = WantedEntries(members, packed, np.array(numbers, np.int64))
    return entries


def _content(access: DatasetAccess, index: int, contents: Contents, fingerprint: Callable[[], str]) -> bytes | None:
    """A hash (32 bytes) of what the pixels come from: the files; without any, the dataset itself and the index."""
    files = access.files(index)
    if not files:
        return hashlib.sha256(f"{access.name}\0{fingerprint()}\0{index}".encode()).digest()
    try:
        return contents(files)
    except Fault:
        return None  # reported and replaced when its turn comes, as every bad picture


class KeptMoments(Protocol):
    """The moments of a dataset's examples on disk."""

    def content(self, index: int, size: Size | None) -> int:
        """A number of what an example's files hold, which decides about variants."""

    def read(self, index: int, size: Size | None, way: int) -> dict[str, Tensor] | None:
        """The tensors of an example in one way; None where its picture could not be read. Raises `Fault` DAT11."""


class NamedMoments:
    """Moments that are found by the names of `wanted_entries`."""

    def __init__(self, wanted: Mapping[Any, WantedEntries], shards: CacheShards) -> None:
        self.shards = shards
        self.examples = {size: entries.examples for size, entries in wanted.items()}
        self.contents = {size: entries.contents for size, entries in wanted.items()}
        self.places = {
            size: shards.locate(entries.names.reshape(-1, ENTRY_BYTES)).reshape(*entries.names.shape[:2], 2)
            for size, entries in wanted.items()
        }

    def content(self, index: int, size: Size | None) -> int:
        """As of `KeptMoments`."""
        return int(self.contents[size][np.searchsorted(self.examples[size], index)])

    def read(self, index: int, size: Size | None, way: int) -> dict[str, Tensor] | None:
        """As of `KeptMoments`."""
        place = self.places[size][np.searchsorted(self.examples[size], index), way]
        return None if place[0] < 0 else self.shards.read(place)


class CachedDataset:
    """`dataset` with `moments` (and `mask`, at their scale) in place of `image`."""

    def __init__(self, dataset: Any, ways: Ways, kept: KeptMoments) -> None:
        self.dataset = dataset
        self.access = DatasetAccess(dataset)
        self.kept = kept
        self.ways = ways
        if hasattr(dataset, "sizes"):
            dataset.sizes()  # read once here, and not by every worker at every example

    def __len__(self) -> int:
        return len(self.dataset)

    def __getattr__(self, name: str) -> Any:
        """What the dataset offers besides: sizes, repeats, weights, path."""
        if name in ("repeats", "weights", "weigher", "path", "paths", "fingerprint"):
            return getattr(self.dataset, name)
        raise AttributeError(name)

    def sizes(self) -> np.ndarray:
        sizes: np.ndarray = self.dataset.sizes()
        return sizes

    def example(self, index: int, draws: Draws, size: Size | None = None) -> Example:
        """Raises `Fault` DAT06 for a picture that could not be read when the cache was filled."""
        way = self.ways.met(draws)
        kept = self.kept.read(index, size, way)
        if kept is None:
            path = self.access.path(index)
            raise Fault("DAT06", f"cannot read image {path}", why="it could not be read when the cache was filled")
        tensors: Any = {name: tensor.float() for name, tensor in kept.items()}
        flipped, drawn = self.ways.look(self.kept.content(index, size), way)
        tensors |= self.access.placement(index, flipped, size, drawn)
        further = self.dataset.further_captions(index) if hasattr(self.dataset, "further_captions") else {}
        return {**tensors, "caption": self.dataset.caption(index, draws), **further}
