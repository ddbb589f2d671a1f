"""Filling the cache: every rank encodes its share of what is missing."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d
from torch.utils.data import DataLoader, Dataset

from ldm.errors import Fault
from lun.data.loader import guard_worker
from lun.data.moments.cached import UNREADABLE, Wanted
from lun.data.moments.shards import ENTRY_BYTES, Shards, Writer
from lun.data.order import Size

log = logging.getLogger(__name__)

BATCH = 8
FLUSH_SECONDS = 120.0
TELL_SECONDS = 10.0


class Entry(NamedTuple):
    """One picture to encode, and the name to store it under."""

    name: bytes
    example: int
    size: Size | None
    flipped: bool


@dataclass(frozen=True)
class Share:
    """Which part of the work is this process's, and how it waits for the others."""

    rank: int = 0
    world_size: int = 1
    wait: Callable[[], None] = lambda: None


def missing_entries(wanted: Mapping[Any, Wanted], shards: Shards) -> list[Entry]:
    """What the cache has not got, each name once, sizes together."""
    found: dict[bytes, Entry] = {}
    for size, entries in wanted.items():
        absent = shards.locate(entries.names.reshape(-1, ENTRY_BYTES))[:, 0] < 0
        for flat in np.flatnonzero(absent).tolist():
            row, flipped = divmod(flat, 2)
            name = entries.names[row, flipped].tobytes()
            if name != UNREADABLE:
                found.setdefault(name, Entry(name, int(entries.examples[row]), size, bool(flipped)))
    return list(found.values())


def fill(
    dataset: Any, missing: Sequence[Entry], encode: Callable[[Tensor], Tensor], writer: Writer, workers: int
) -> None:
    """Encode `missing` and write it; pictures that cannot be read are left out, for the run to tell and replace."""
    if not missing:
        return
    loader = DataLoader(
        _Pictures(dataset, missing),
        batch_size=BATCH,
        num_workers=workers,
        collate_fn=list,
        worker_init_fn=_guard,
    )
    done, begun, told, flushed = 0, time.monotonic(), time.monotonic(), time.monotonic()
    for rows in loader:
        for entries in _by_shape([row for row in rows if row is not None]):
            _encode(entries, encode, writer)
        done += len(rows)
        now = time.monotonic()
        if now - told > TELL_SECONDS or done == len(missing):
            rate = done / max(now - begun, 1e-9)
            log.info("cache    %d of %d moments, %.1f a second", done, len(missing), rate)
            told = now
        if now - flushed > FLUSH_SECONDS:
            writer.flush()
            flushed = now
    writer.flush()


def _guard(worker: int) -> None:
    guard_worker(worker, 0)


class _Pictures(Dataset[Any]):
    """(entry, picture) for every entry; None in place of one that cannot be read."""

    def __init__(self, dataset: Any, entries: Sequence[Entry]) -> None:
        self.dataset = dataset
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __getitem__(self, number: int) -> tuple[Entry, Mapping[str, Tensor]] | None:
        entry = self.entries[number]
        try:
            return entry, self.dataset.picture(entry.example, entry.flipped, entry.size)
        except Fault as fault:
            if fault.id != "DAT06":
                raise
            return None


Row = tuple[Entry, Mapping[str, Tensor]]


def _by_shape(rows: list[Row]) -> Iterator[list[Row]]:
    shapes = dict.fromkeys(tuple(picture["image"].shape) for _, picture in rows)
    for shape in shapes:
        yield [row for row in rows if tuple(row[1]["image"].shape) == shape]


def _encode(rows: list[Row], encode: Callable[[Tensor], Tensor], writer: Writer) -> None:
    moments = encode(torch.stack([torch.as_tensor(picture["image"]).float() for _, picture in rows]))
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
            tensors["mask"] = adaptive_avg_pool2d(picture["mask"][None].float(), (own.shape[-2], own.shape[-1]))[0]
        writer.add(entry.name, tensors)


def fill_together(
    dataset: Any,
    wanted: Mapping[Any, Wanted],
    encode: Callable[[Tensor], Tensor],
    folder: Path,
    dtype: torch.dtype,
    workers: int,
    share: Share,
) -> Shards:
    """Every rank fills its share; then whoever sees no shared folder fills the rest for itself."""
    missing = missing_entries(wanted, Shards(folder))
    if missing and share.rank == 0:
        log.info("cache    %d moments to compute, kept in %s", len(missing), folder)
    fill(dataset, missing[share.rank :: share.world_size], encode, Writer(folder, dtype), workers)
    share.wait()
    shards = Shards(folder)
    if share.world_size > 1 and (rest := missing_entries(wanted, shards)):
        fill(dataset, rest, encode, Writer(folder, dtype), workers)
        shards = Shards(folder)
    share.wait()
    return shards
