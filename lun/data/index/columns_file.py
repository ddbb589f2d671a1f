"""Columns in one file: a header and the arrays behind it, mapped into memory, so that opening reads almost nothing."""

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ldm.files.replacing import replacing
from ldm.plain import parse_json, require_ordinary
from lun.data.metadata.columns import Array

VERSION = 4
"""One more whenever something else is read from the same files, sizes included."""
_MAGIC = b"lun-columns\n"
_ALIGNED = 64


def write_columns(path: Path, columns: Mapping[str, Array]) -> None:
    """Write all of it or nothing: a file of that name is replaced at once. Raises OSError."""
    places, size = {}, 0
    for name, column in columns.items():
        places[name] = (column.dtype.str, list(column.shape), size, _checksum(column))
        size += -(-column.nbytes // _ALIGNED) * _ALIGNED
    header = json.dumps({"version": VERSION, "size": size, "columns": places}).encode()
    start = _start(len(header))
    with replacing(path, private=True) as file:
        file.write(_MAGIC + len(header).to_bytes(8, "little") + hashlib.blake2b(header, digest_size=16).digest())
        file.write(header.ljust(start - file.tell(), b" "))
        for column in columns.values():
            data = np.ascontiguousarray(column)
            file.write(data.view(np.uint8).data if data.size else b"")
            file.write(bytes(-data.nbytes % _ALIGNED))


def read_columns(path: Path) -> dict[str, Array] | None:
    """The columns of a file, mapped and read-only; None where there is none, or it is not whole and as it was written.

    Every column is read once for its checksum, at more than 1 GB/s: a flipped bit would be another path or caption.
    """
    try:
        require_ordinary(path)
        whole = np.memmap(path, np.uint8, mode="r")
    except (OSError, ValueError):  # missing, empty, or no file
        return None
    known = len(_MAGIC)
    if whole[:known].tobytes() != _MAGIC or len(whole) < known + 24:
        return None
    length = int.from_bytes(whole[known : known + 8].tobytes(), "little")
    header = whole[known + 24 : known + 24 + length].tobytes()
    if hashlib.blake2b(header, digest_size=16).digest() != whole[known + 8 : known + 24].tobytes():
        return None
    try:
        return _columns(whole, _start(length), parse_json(header))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):  # not what this program writes
        return None


def _columns(whole: Array, start: int, said: Any) -> dict[str, Array] | None:
    if said["version"] != VERSION or len(whole) != start + said["size"]:
        return None
    columns = {name: _column(whole, start, *place[:3]) for name, place in said["columns"].items()}
    if any(_checksum(columns[name]) != place[3] for name, place in said["columns"].items()):
        return None
    return columns


def _checksum(column: Array) -> int:
    data = np.ascontiguousarray(column)
    return zlib.crc32(data.view(np.uint8).data) if data.size else 0


def _start(header: int) -> int:
    return -(-(len(_MAGIC) + 24 + header) // _ALIGNED) * _ALIGNED


def _column(whole: Array, start: int, kind: str, shape: list[int], offset: int) -> Array:
    dtype = np.dtype(kind)
    size = int(np.prod(shape)) * dtype.itemsize
    return np.asarray(whole[start + offset : start + offset + size]).view(dtype).reshape(shape)
