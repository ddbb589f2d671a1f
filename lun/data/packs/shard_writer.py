"""One shard at a time: its samples as they are written, and what its index says of them."""

import hashlib
import zlib
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from lun.data.packs.set_file import ROW, SHARD, row_of
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
    """A shard on its way into `file`; `weighted` puts the weights of samples behind its index. Raises OSError."""

    def __init__(self, file: BinaryIO, weighted: bool) -> None:
        self.file = file
        self.weighted = weighted
        self.rows: list[Row] = []
        self.weights: list[float] = []
        self.bytes = 0
        self._digest = hashlib.sha256()

    def add(self, sample: PackedSample) -> None:
        piece, counted = whole_sample(sample.files)
        row = row_of(self.bytes, counted, zlib.crc32(memoryview(piece)[:counted]), sample.size)
        self.rows += [row] * sample.times
        self.weights += [sample.weight] * sample.times
        self._write(piece)

    def end(self) -> None:
        """Write what a tar file ends with."""
        self._write(END)

    def index(self) -> bytes:
        """The content of its index."""
        data = np.array(self.rows, ROW).tobytes()
        return data + (np.array(self.weights, "<f4").tobytes() if self.weighted else b"")

    def entry(self) -> np.ndarray[Any, Any]:
        """The `SHARD` of it."""
        return shard_entry(len(self.rows), self.bytes, self._digest.digest(), self.index())

    def _write(self, data: bytes) -> None:
        self.file.write(data)
        self._digest.update(data)
        self.bytes += len(data)


def shard_entry(samples: int, length: int, sha256: bytes, index: bytes) -> np.ndarray[Any, Any]:
    """A `SHARD` of one row."""
    return np.array([(samples, length, sha256, hashlib.sha256(index).digest())], SHARD)
