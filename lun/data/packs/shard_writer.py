"""One shard at a time, written beside its place and moved there when it is whole and on the disk."""

import hashlib
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ldm.files.replacing import flush_file, move_into_place, replacing, temporary_name
from lun.data.packs.set_file import ROW, SHARD, index_of, row_of, shard_name
from lun.data.packs.tar_members import END, whole_sample

Row = tuple[int, int, int, int, int]


class PackedSample(NamedTuple):
    """What is written of one example.

    files   (name, content), the record first
    size    (width, height) of the picture, upright
    times   how often it is read a lap
    weight  how much it counts in the loss
    """

    files: list[tuple[str, bytes]]
    size: tuple[int, int]
    times: int = 1
    weight: float = 1.0


class ShardWriter:
    """A shard of `folder` under construction. Left without `finish`, nothing of it stays."""

    def __init__(self, folder: Path, number: int, weighted: bool) -> None:
        self.path = folder / shard_name(number)
        self.weighted = weighted
        self.rows: list[Row] = []
        self.weights: list[float] = []
        self.bytes = 0
        self._digest = hashlib.sha256()
        self._temporary = temporary_name(self.path)

    def __enter__(self) -> "ShardWriter":
        self._file = open(self._temporary, "wb")
        return self

    def add(self, sample: PackedSample) -> None:
        """Raises OSError."""
        piece, counted = whole_sample(sample.files)
        row = row_of(self.bytes, counted, zlib.crc32(memoryview(piece)[:counted]), sample.size)
        self.rows += [row] * sample.times
        self.weights += [sample.weight] * sample.times
        self._write(piece)

    def finish(self) -> np.ndarray[Any, Any]:
        """Give shard and index their names, and return the `SHARD` of them. Raises OSError."""
        self._write(END)
        flush_file(self._file)
        move_into_place(self._temporary, self.path)
        data = np.array(self.rows, ROW).tobytes()
        data += np.array(self.weights, "<f4").tobytes() if self.weighted else b""
        with replacing(self.path.with_name(index_of(self.path.name))) as file:
            file.write(data)
        return shard_entry(len(self.rows), self.bytes, self._digest.digest(), data)

    def _write(self, data: bytes) -> None:
        self._file.write(data)
        self._digest.update(data)
        self.bytes += len(data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
        if self._temporary.exists():
            os.unlink(self._temporary)


def shard_entry(samples: int, length: int, sha256: bytes, index: bytes) -> np.ndarray[Any, Any]:
    """A `SHARD` of one row."""
    return np.array([(samples, length, sha256, hashlib.sha256(index).digest())], SHARD)
