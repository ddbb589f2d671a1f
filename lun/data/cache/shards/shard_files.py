"""Shards: safetensors files that are written whole or not at all, and mapped into memory."""

import logging
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from ldm.errors import Fault
from ldm.files.replacing import flush_file, move_into_place, unfinished
from ldm.plain import parse_json, require_ordinary
from ldm.shell import quoted

log = logging.getLogger(__name__)

ENTRY_BYTES = 16
"""Length of an entry's name."""

DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""What opening a file raises that is none of these, or not a whole one."""

SHARD_BYTES = 256 * 2**20
NUMPY = {"F32": np.float32, "F16": np.float16, "U8": np.uint8}
_ENTRIES = "entries"
_CHECKSUMS = "checksums"


class Shard:
    """One file: `entries` (m, 16) names, `checksums` (m, 4) and, under any other names, tensors with a row for each."""

    def __init__(self, path: Path) -> None:
        self.path = path
        require_ordinary(path)
        whole = np.memmap(path, np.uint8, "c")  # a private map: torch wants memory that it could write to
        start = 8 + int.from_bytes(whole[:8].tobytes(), "little")
        header: dict[str, Any] = parse_json(whole[8:start].tobytes())
        header.pop("__metadata__", None)
        self.tensors = {name: _mapped(whole, start, entry) for name, entry in header.items()}
        self.entries = np.array(self.tensors.pop(_ENTRIES))
        self.checksums = np.array(self.tensors.pop(_CHECKSUMS))
        if any(len(rows) != len(self.entries) for rows in (self.checksums, *self.tensors.values())):
            raise ValueError("its tensors differ in length")

    def __reduce__(self) -> Any:
        return Shard, (self.path,)  # a worker process maps the file itself

    def row(self, number: int) -> dict[str, Tensor]:
        """The tensors of one entry as they were stored, without a copy: they are not to be written to.

        Raises `Fault` DAT11 where they are not what was stored.
        """
        row = {name: torch.from_numpy(rows[number]) for name, rows in self.tensors.items()}
        if not np.array_equal(_checksum(self.entries[number], row), self.checksums[number]):
            raise Fault(
                "DAT11",
                f"cache file {self.path} is damaged",
                why="what it holds for one of the examples does not match its checksum",
                fix=f"rm {quoted(self.path)}    (the next start computes again what was in it)",
            )
        return row


def _mapped(whole: np.ndarray, start: int, entry: Mapping[str, Any]) -> np.ndarray:
    first, last = entry["data_offsets"]
    return np.asarray(whole[start + first : start + last]).view(NUMPY[entry["dtype"]]).reshape(entry["shape"])


class CacheShards:
    """All shards of a folder. A file that cannot be read counts as absent, and is logged."""

    def __init__(self, folder: Path) -> None:
        self.shards: list[Shard] = []
        for path in sorted(folder.glob("*.safetensors")):
            try:
                self.shards.append(Shard(path))
            except DAMAGED as error:
                log.warning("cache file %s is damaged and is not used: %s", path, error)
        names = [shard.entries for shard in self.shards]
        every = np.concatenate(names) if names else np.zeros((0, ENTRY_BYTES), np.uint8)
        which = np.repeat(np.arange(len(names), dtype=np.int32), [len(rows) for rows in names])
        rows = np.concatenate([np.arange(len(rows), dtype=np.int32) for rows in names]) if names else which
        self._places = np.stack([which, rows], axis=1)
        self._halves = np.ascontiguousarray(every).view("<u8").reshape(-1, 2)
        self._order = np.argsort(self._halves[:, 0], kind="stable")
        self._sorted = self._halves[self._order, 0]

    def __len__(self) -> int:
        return len(self._places)

    def locate(self, entries: np.ndarray) -> np.ndarray:
        """(m, 16) names to (m, 2) shard and row, -1 for what is not there."""
        wanted = np.ascontiguousarray(entries).view("<u8").reshape(-1, 2)
        places = np.full((len(wanted), 2), -1, dtype=np.int32)
        if len(self._sorted):
            near = np.searchsorted(self._sorted, wanted[:, 0]).clip(max=len(self._sorted) - 1)
            same = (self._halves[self._order[near]] == wanted).all(axis=1)
            places[same] = self._places[self._order[near[same]]]
        return places

    def read(self, place: Sequence[int]) -> dict[str, Tensor]:
        """The tensors of the entry at (shard, row): see `Shard.row`."""
        return self.shards[place[0]].row(place[1])


class Writer:
    """Collects entries and writes shards of those that are alike; a kill costs what was not flushed, nothing else."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held = 0
        self.waiting: dict[Any, list[tuple[bytes, Mapping[str, Tensor]]]] = {}

    def add(self, entry: bytes, tensors: Mapping[str, Tensor]) -> None:
        """Keep `tensors` under the name `entry`; they belong to the writer from now on."""
        alike = tuple((name, tensor.shape, tensor.dtype) for name, tensor in tensors.items())
        self.waiting.setdefault(alike, []).append((entry, tensors))
        self.held += sum(tensor.nbytes for tensor in tensors.values())
        if self.held >= SHARD_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write what was collected. Raises `Fault` DSK01; what was written before stays, and nothing torn is left."""
        while self.waiting:
            self._write(self.waiting.popitem()[1])
        self.held = 0

    def _write(self, rows: list[tuple[bytes, Mapping[str, Tensor]]]) -> None:
        names = bytearray(b"".join(entry for entry, _ in rows))
        tensors = {name: torch.stack([row[name] for _, row in rows]) for name in rows[0][1]}
        write_shard(self.folder / f"{uuid4().hex}.safetensors", names, tensors)


def write_shard(shard: Path, entries: bytearray, tensors: Mapping[str, Tensor]) -> None:
    """Write the file of a `Shard`, whole or not at all. Raises `Fault` DSK01.

    entries  the names of m entries, 16 bytes each
    tensors  each with m rows
    """
    names = torch.frombuffer(entries, dtype=torch.uint8).view(-1, ENTRY_BYTES)
    sums = [_checksum(name.numpy(), {key: rows[at] for key, rows in tensors.items()}) for at, name in enumerate(names)]
    checksums = torch.from_numpy(np.stack(sums))
    try:
        shard.parent.mkdir(parents=True, exist_ok=True)
        with unfinished(shard) as hidden:
            save_file({**tensors, _ENTRIES: names, _CHECKSUMS: checksums}, str(hidden))
            with hidden.open("rb") as file:
                flush_file(file)
            move_into_place(hidden, shard)
    except (OSError, SafetensorError) as error:
        raise _not_written(shard.parent, error) from error


def _checksum(name: np.ndarray, row: Mapping[str, Tensor]) -> np.ndarray:
    """(4,) bytes over an entry's name and its tensors: a shard has none of its own, and a flipped bit would train."""
    crc = zlib.crc32(name.tobytes())
    for key in sorted(row):
        crc = zlib.crc32(row[key].contiguous().view(-1).numpy().view(np.uint8).data, zlib.crc32(key.encode(), crc))
    return np.frombuffer(crc.to_bytes(4, "little"), np.uint8)


def _not_written(folder: Path, error: Exception) -> Fault:
    return Fault(
        "DSK01",
        f"the cache in {folder} cannot be written: {getattr(error, 'strerror', None) or error}",
        why="what was computed before is kept, and the next start goes on from there",
        fix="make room there, or choose another place: 'data.params.cache={folder: DIR}', or LUN_CACHE=DIR\n"
        "'data.params.cache={dtype: float16}' needs half as much",
    )
