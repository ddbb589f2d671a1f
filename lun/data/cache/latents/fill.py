"""Filling the cache of moments: pictures are read by worker processes and encoded by size."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d
from torch.utils.data import DataLoader, Dataset

from ldm.errors import Fault
from ldm.models.pixels import shares
from lun.data.cache.latents.cached import UNREADABLE, WantedEntries
from lun.data.cache.latents.ways import Ways
from lun.data.cache.shards.filling import steadily
from lun.data.cache.shards.shard_files import ENTRY_BYTES, CacheShards
from lun.data.dataset_protocol import DatasetAccess
from lun.data.loader import guard_worker
from lun.data.order.law import Size

BATCH = 8
WHAT = "moments"


class Entry(NamedTuple):
    """One picture to encode, and the name to store it under."""

    name: bytes
    example: int
    size: Size | None
    content: int
    way: int


class EntryWriter(Protocol):
    """What takes in entries, in their order."""

    def add(self, entry: bytes, tensors: Mapping[str, Tensor]) -> None: ...

    def flush(self) -> None: ...


def in_batches(start: int, end: int) -> list[list[int]]:
    """The numbers from `start` to `end`, as many at a time as are encoded together."""
    return [list(range(first, min(first + BATCH, end))) for first in range(start, end, BATCH)]


def missing_entries(wanted: Mapping[Any, WantedEntries], shards: CacheShards) -> list[Entry]:
    """What the cache has not got, each name once, sizes together."""
    missing: dict[bytes, Entry] = {}
    for size, entries in wanted.items():
        absent = shards.locate(entries.names.reshape(-1, ENTRY_BYTES))[:, 0] < 0
        for flat in np.flatnonzero(absent).tolist():
            row, way = divmod(flat, entries.names.shape[1])
            name = entries.names[row, way].tobytes()
            if name != UNREADABLE:
                missing.setdefault(name, Entry(name, int(entries.examples[row]), size, int(entries.contents[row]), way))
    return list(missing.values())


def fill(
    dataset: Any,
    ways: Ways,
    missing: Sequence[Entry],
    writer: EntryWriter,
    encode: Callable[[Tensor], Tensor],
    dtype: torch.dtype,
    workers: int,
    batches: list[list[int]] | None = None,
) -> None:
    """Encode `missing` and write it; pictures that cannot be read are left out, for the run to report and replace.

    batches  numbers of those that are encoded together
    """
    if not missing:
        return
    loader = DataLoader(
        _Pictures(dataset, ways, missing),
        batch_sampler=in_batches(0, len(missing)) if batches is None else batches,
        num_workers=workers,
        collate_fn=list,
        worker_init_fn=_guard,
    )

    def add(rows: list[Row | None]) -> int:
        for alike in _by_shape([row for row in rows if row is not None]):
            _encode(alike, encode, dtype, writer)
        return len(rows)

    steadily(loader, add, writer, len(missing), WHAT)


def _guard(worker: int) -> None:
    guard_worker(worker, 0)


Row = tuple[Entry, Mapping[str, Tensor]]


class _Pictures(Dataset[Any]):
    """(entry, picture) for every entry; None in place of one that cannot be read."""

    def __init__(self, dataset: Any, ways: Ways, entries: Sequence[Entry]) -> None:
        self.access = DatasetAccess(dataset)
        self.ways = ways
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitems__(self, numbers: Sequence[int]) -> list[Row | None]:
        self.access.fetch([self.entries[number].example for number in numbers])
        return [self[number] for number in numbers]

    def __getitem__(self, number: int) -> Row | None:
        entry = self.entries[number]
        try:
            flipped, draws = self.ways.look(entry.content, entry.way)
            return entry, self.access.picture(entry.example, flipped, entry.size, draws)
        except Fault as fault:
            if fault.id != "DAT06":
                raise
            return None


def _by_shape(rows: list[Row]) -> Iterator[list[Row]]:
    alike: dict[Any, list[Row]] = {}
    for row in rows:
        image = row[1]["image"]
        alike.setdefault((tuple(image.shape), image.dtype), []).append(row)
    yield from alike.values()


def _encode(rows: list[Row], encode: Callable[[Tensor], Tensor], dtype: torch.dtype, writer: EntryWriter) -> None:
    moments = encode(torch.stack([torch.as_tensor(picture["image"]) for _, picture in rows]))
    for (entry, picture), own in zip(rows, moments, strict=True):
        if not own.isfinite().all():
            raise Fault(
                "MOD03",
                "the first stage gives moments that are not finite",
                where=f"example {entry.example}",
                why="its weights do not suit their precision",
                fix="--precision 32-true for the first stage, or another first stage",
            )
        tensors = {"moments": own}
        if "mask" in picture:
            tensors["mask"] = adaptive_avg_pool2d(
                shares(picture["mask"])[None].float(), (own.shape[-2], own.shape[-1])
            )[0]
        writer.add(entry.name, {name: tensor.to(dtype, copy=True) for name, tensor in tensors.items()})
