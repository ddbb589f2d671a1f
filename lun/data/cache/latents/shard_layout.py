"""Where the moments of a set that lies in shards are kept: in files of equal rows, whose places follow by arithmetic.

A file holds a stretch of those examples of one shard that are read at one size, in one way. It is named by the shard's
own hash: no picture is read to find it, and shards that are added, moved or copied leave it as it is.
"""

import hashlib
import logging
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ldm.errors import Fault
from ldm.shell import quoted
from lun.data.cache.latents.ways import Ways
from lun.data.cache.shards.shard_files import DAMAGED, ENTRY_BYTES, Shard
from lun.data.dataset_protocol import DatasetAccess
from lun.data.order.law import Size

log = logging.getLogger(__name__)

ROWS = 256
"""Examples of a file: the most that a kill costs, and what ranks share the work by."""

MOST_OPEN = 4096
"""Files that are mapped at once, about 8 KB of memory each."""

HAS_MASK = "has_mask"
NAME_BYTES = 12
"""What of an entry names its file; its row is the rest."""


class Stretch(NamedTuple):
    """One file: `length` examples, the first of which is number `first` of all that are read at `size`."""

    name: bytes
    size: Size | None
    way: int
    first: int
    length: int

    def file(self, folder: Path) -> Path:
        return folder / self.name[:1].hex() / f"{self.name.hex()}.safetensors"

    def entry(self, row: int) -> bytes:
        return self.name + row.to_bytes(ENTRY_BYTES - NAME_BYTES, "little")


class RowPlace(NamedTuple):
    """The file of an example, by the place of the file's first one, and the row there."""

    first: int
    row: int


def lies_in_shards(dataset: Any, sizes: Mapping[Size | None, np.ndarray]) -> bool:
    """Whether its moments can be laid out by shard: it has some, and all moments of one size have one shape."""
    one_shape = None not in sizes or isinstance(getattr(dataset, "size", None), int)
    return one_shape and DatasetAccess(dataset).has("shard_lengths", "shard_identities")


class ShardLayout:
    """The files of a dataset that `lies_in_shards`.

    sizes  the examples that are read at each size. Raises `Fault` DAT08 for shards that are not those of the examples.
    """

    def __init__(self, dataset: Any, ways: Ways, sizes: Mapping[Size | None, np.ndarray]) -> None:
        self.ways = ways
        self.preparation: str = dataset.preparation()
        self.identities: Sequence[bytes] = dataset.shard_identities()
        self.starts: list[int] = [0, *np.cumsum(dataset.shard_lengths()).tolist()]
        if self.starts[-1] != len(dataset) or len(self.identities) != len(self.starts) - 1:
            why = f"{self.starts[-1]:,} examples in {len(self.identities):,} shards, {len(dataset):,} in all"
            name = DatasetAccess(dataset).name
            raise Fault("DAT08", "shard_lengths() of the dataset makes no sense", where=name, why=why)
        self.examples = {size: _members(examples) for size, examples in sizes.items()}
        self.bounds = {size: np.searchsorted(own, self.starts).tolist() for size, own in self.examples.items()}

    def stretches(self) -> Iterator[Stretch]:
        """Every file, those of one shard and size together; its ways follow one another."""
        for size, bounds in self.bounds.items():
            for start, end in pairwise(bounds):
                for first in range(start, end, ROWS):
                    yield from (self.stretch(size, first, way) for way in self.ways.kept)

    def stretch(self, size: Size | None, first: int, way: int) -> Stretch:
        """The file that begins with number `first` of the examples that are read at `size`."""
        shard = self._shard(int(self.examples[size][first]))
        end = min(first + ROWS, self.bounds[size][shard + 1])
        rows = (self.examples[size][first:end] - self.starts[shard]).astype("<u4")
        hashed = f"{self.preparation}\0{size}\0{self.ways.label(way)}\0".encode()
        name = hashlib.sha256(self.identities[shard] + hashed + rows.tobytes()).digest()[:NAME_BYTES]
        return Stretch(name, size, way, first, end - first)

    def place(self, index: int, size: Size | None) -> RowPlace:
        """Where an example lies that is read at `size`."""
        number = int(np.searchsorted(self.examples[size], index))
        start = self.bounds[size][self._shard(index)]
        row = (number - start) % ROWS
        return RowPlace(number - row, row)

    def content(self, index: int) -> int:
        """A number of what the shard holds for an example, which decides about variants."""
        shard = self._shard(index)
        hashed = self.identities[shard] + (index - self.starts[shard]).to_bytes(8, "little")
        return int.from_bytes(hashlib.sha256(hashed).digest()[:8], "big") >> 1

    def _shard(self, index: int) -> int:
        return bisect_right(self.starts, index) - 1


def _members(examples: np.ndarray) -> np.ndarray:
    """Each once, in their order; `np.unique` takes a second for a million, most often of what is so already."""
    return examples if (examples[1:] > examples[:-1]).all() else np.unique(examples)


def missing_stretches(layout: ShardLayout, folder: Path) -> list[Stretch]:
    """The files that are not there, each once, or cannot be read, which is logged."""
    return [
        stretch for stretch in {one.name: one for one in layout.stretches()}.values() if not _is_kept(stretch, folder)
    ]


def _is_kept(stretch: Stretch, folder: Path) -> bool:
    path = stretch.file(folder)
    try:
        return _opened(stretch, path) is not None
    except FileNotFoundError:
        return False
    except DAMAGED as error:
        log.warning("cache file %s is damaged and is not used: %s", path, error)
        return False


def _opened(stretch: Stretch, path: Path) -> Shard:
    """Raises one of `DAMAGED` for a file that does not hold what its name says."""
    shard = Shard(path)
    if len(shard.entries) != stretch.length:
        raise ValueError(f"it has {len(shard.entries):,} rows, of {stretch.length:,}")
    return shard


class ShardMoments:
    """The moments in `folder`, as `layout` has them."""

    def __init__(self, layout: ShardLayout, folder: Path) -> None:
        self.layout = layout
        self.folder = folder
        self._open: OrderedDict[tuple[Size | None, int, int], Shard] = OrderedDict()

    def content(self, index: int, size: Size | None) -> int:
        """A number of what an example is made of."""
        return self.layout.content(index)

    def read(self, index: int, size: Size | None, way: int) -> dict[str, Tensor] | None:
        """The tensors of an example in one way; None where its picture could not be read. Raises `Fault` DAT11."""
        first, row = self.layout.place(index, size)
        shard = self._file(size, first, way)
        if not shard.entries[row].any():
            return None
        tensors = shard.row(row)
        if HAS_MASK in tensors and not tensors.pop(HAS_MASK).item():
            del tensors["mask"]
        return tensors

    def _file(self, size: Size | None, first: int, way: int) -> Shard:
        key = (size, first, way)
        if key in self._open:
            self._open.move_to_end(key)
            return self._open[key]
        while len(self._open) >= MOST_OPEN:
            self._open.popitem(last=False)
        stretch = self.layout.stretch(*key)
        path = stretch.file(self.folder)
        try:
            self._open[key] = _opened(stretch, path)
        except DAMAGED as error:
            fix = f"rm {quoted(path)}    (the next start computes again what was in it)"
            raise Fault("DAT11", f"cache file {path} is damaged", why=str(error), fix=fix) from error
        return self._open[key]
