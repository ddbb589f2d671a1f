"""Shards of moments: safetensors files that are written whole or not at all, and mapped into memory."""

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

log = logging.getLogger(__name__)

ENTRY_BYTES = 16
"""Length of an entry's name."""

SHARD_BYTES = 256 * 2**20
NUMPY = {"F32": np.float32, "F16": np.float16, "U8": np.uint8}


class Shard:
    """One file: `entries` (m, 16) names, `moments` (m, 2z, h, w) and, where there are any, `mask` (m, h, w)."""

    def __init__(self, path: Path) -> None:
        self.tensors: dict[str, np.ndarray] = {}
        with path.open("rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(start - 8))
        for name, told in header.items():
            if name != "__metadata__":
                first = start + told["data_offsets"][0]
                self.tensors[name] = np.memmap(path, NUMPY[told["dtype"]], "r", first, tuple(told["shape"]))
        self.entries = np.array(self.tensors.pop("entries"))

    def row(self, number: int) -> dict[str, Tensor]:
        """The tensors of one entry, as float32."""
        return {name: torch.from_numpy(rows[number].astype(np.float32)) for name, rows in self.tensors.items()}


class Shards:
    """All shards of a folder. A file that cannot be read counts as absent, and is told."""

    def __init__(self, folder: Path) -> None:
        self.shards: list[Shard] = []
        for path in sorted(folder.glob("*.safetensors")):
            try:
                self.shards.append(Shard(path))
            except (OSError, ValueError, KeyError) as error:
                log.warning("cache file %s is damaged and is not used: %s", path, error)
        names = [shard.entries for shard in self.shards]
        every = np.concatenate(names) if names else np.zeros((0, ENTRY_BYTES), np.uint8)
        self._places = np.array(
            [(which, row) for which, rows in enumerate(names) for row in range(len(rows))], dtype=np.int32
        ).reshape(-1, 2)
        self._halves = np.ascontiguousarray(every).view("<u8").reshape(-1, 2)
        self._order = np.argsort(self._halves[:, 0], kind="stable")
        self._sorted = self._halves[self._order, 0]

    def __len__(self) -> int:
        return len(self._places)

    def locate(self, entries: np.ndarray) -> np.ndarray:
        """(m, 16) names to (m, 2) shard and row, -1 for what is not there."""
        wanted = np.ascontiguousarray(entries).view("<u8").reshape(-1, 2)
        found = np.full((len(wanted), 2), -1, dtype=np.int32)
        if len(self._sorted):
            near = np.searchsorted(self._sorted, wanted[:, 0]).clip(max=len(self._sorted) - 1)
            same = (self._halves[self._order[near]] == wanted).all(axis=1)
            found[same] = self._places[self._order[near[same]]]
        return found

    def read(self, place: Sequence[int]) -> dict[str, Tensor]:
        return self.shards[place[0]].row(place[1])


class Writer:
    """Collects entries and writes them as shards of one shape; a kill costs what was not flushed, nothing else."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.folder = folder
        self.dtype = dtype
        self.held = 0
        self.waiting: dict[tuple[int, ...], list[tuple[bytes, dict[str, Tensor]]]] = {}

    def add(self, entry: bytes, tensors: dict[str, Tensor]) -> None:
        shape = tuple(tensors["moments"].shape)
        row = {name: tensor.to(self.dtype, copy=True) for name, tensor in tensors.items()}
        self.waiting.setdefault(shape, []).append((entry, row))
        self.held += row["moments"].nbytes
        if self.held >= SHARD_BYTES:
            self.flush()

    def flush(self) -> None:
        while self.waiting:
            self._write(self.waiting.popitem()[1])
        self.held = 0

    def _write(self, rows: list[tuple[bytes, dict[str, Tensor]]]) -> None:
        names = torch.frombuffer(bytearray(b"".join(entry for entry, _ in rows)), dtype=torch.uint8)
        tensors = {"entries": names.view(-1, ENTRY_BYTES)}
        tensors["moments"] = torch.stack([row["moments"] for _, row in rows])
        if any("mask" in row for _, row in rows):
            whole = torch.ones(tensors["moments"].shape[-2:], dtype=self.dtype)
            tensors["mask"] = torch.stack([row.get("mask", whole) for _, row in rows])
        self.folder.mkdir(parents=True, exist_ok=True)
        name = uuid4().hex
        hidden = self.folder / f".{name}.part"
        save_file(tensors, str(hidden))
        with hidden.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(hidden, self.folder / f"{name}.safetensors")
