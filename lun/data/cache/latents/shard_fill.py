"""Filling the cache of a set that lies in shards: file by file, each written whole or not at all."""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor

from lun.data.cache.latents.fill import Entry, fill, in_batches
from lun.data.cache.latents.shard_layout import HAS_MASK, NAME_BYTES, ShardLayout, Stretch
from lun.data.cache.shards.shard_files import ENTRY_BYTES, write_shard


def fill_stretches(
    dataset: Any,
    layout: ShardLayout,
    missing: Sequence[Stretch],
    folder: Path,
    encode: Callable[[Tensor], Tensor],
    dtype: torch.dtype,
    workers: int,
) -> None:
    """Encode the pictures of files that are `missing`, as `fill` does. Raises `Fault` DSK01."""
    entries, writer = StretchEntries(layout, missing), StretchWriter(folder, missing)
    fill(dataset, layout.ways, entries, writer, encode, dtype, workers, entries.batches())
    writer.end()


class StretchEntries(Sequence[Entry]):
    """The pictures of files, one after the other, made when they are asked for."""

    def __init__(self, layout: ShardLayout, stretches: Sequence[Stretch]) -> None:
        self.layout = layout
        self.stretches = stretches
        self.starts = [0, *accumulate(stretch.length for stretch in stretches)]

    def __len__(self) -> int:
        return self.starts[-1]

    @overload
    def __getitem__(self, number: int) -> Entry: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Entry]: ...

    def __getitem__(self, number: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(number, slice):
            return [self[one] for one in range(*number.indices(len(self)))]
        which = bisect_right(self.starts, number) - 1
        stretch, row = self.stretches[which], number - self.starts[which]
        index = int(self.layout.examples[stretch.size][stretch.first + row])
        return Entry(stretch.entry(row), index, stretch.size, self.layout.content(index), stretch.way)

    def batches(self) -> list[list[int]]:
        """Numbers of pictures that are encoded together, which one file holds."""
        return [batch for start, end in pairwise(self.starts) for batch in in_batches(start, end)]


class StretchWriter:
    """Writes a file when the first picture of the next one comes, and the rest in the end."""

    def __init__(self, folder: Path, stretches: Sequence[Stretch]) -> None:
        self.folder = folder
        self.left = {stretch.name: stretch for stretch in stretches}
        self.name = b""
        self.rows: dict[int, Mapping[str, Tensor]] = {}

    def add(self, entry: bytes, tensors: Mapping[str, Tensor]) -> None:
        """Keep `tensors` as the row that `entry` says. Raises `Fault` DSK01."""
        if entry[:NAME_BYTES] != self.name:
            self._write()
            self.name = entry[:NAME_BYTES]
        self.rows[int.from_bytes(entry[NAME_BYTES:], "little")] = tensors

    def flush(self) -> None:
        """Nothing: a file is written when it is whole."""

    def end(self) -> None:
        """Write the last file, and those of whose pictures none could be read."""
        self._write()
        for name in tuple(self.left):
            self.name = name
            self._write()

    def _write(self) -> None:
        stretch = self.left.pop(self.name, None)
        if stretch is not None:
            names = bytearray(stretch.length * ENTRY_BYTES)
            for row in self.rows:
                names[row * ENTRY_BYTES : (row + 1) * ENTRY_BYTES] = stretch.entry(row)
            write_shard(stretch.file(self.folder), names, _stacked(self.rows, stretch.length))
        self.rows = {}


def _stacked(rows: Mapping[int, Mapping[str, Tensor]], count: int) -> dict[str, Tensor]:
    """A row of zeros for what a picture has not got; whether it has a mask is said beside."""
    stacked: dict[str, Tensor] = {}
    for row, own in rows.items():
        for name, tensor in own.items():
            if name not in stacked:
                stacked[name] = tensor.new_zeros((count, *tensor.shape))
            stacked[name][row] = tensor
    if "mask" in stacked:
        stacked[HAS_MASK] = torch.tensor([["mask" in rows.get(row, ())] for row in range(count)]).byte()
    return stacked
