"""Weights into a file that is whole or absent, and the same byte for byte each time."""

import errno
import hashlib
import json
import shutil
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.files.replacing import replacing
from ldm.files.sniff import readable_size
from ldm.files.state import State

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
HASH = "modelspec.hash_sha256"  # of all bytes after the header
NO_HASH = "0x" + "0" * 64

Types = Mapping[str, torch.dtype]
"""{key: dtype under which the tensor is stored}; a key that is not there keeps its own."""


def write_safetensors(
    path: str | Path,
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, str] | None = None,
    types: Types | None = None,
) -> None:
    """Write `tensors` to `path`, one at a time and without a second copy of all of them in memory.

    The file appears under its name only when it is complete; one that was there before stays until then. Keys of
    `metadata` are sorted, which safetensors' own writer does not do; a `modelspec.hash_sha256` among them is computed.
    A mapping that makes its tensors when asked is asked for one at a time, and more than once. Raises OSError as the
    file system does, and `Fault` MOD07 for a number that does not fit into its type.
    """
    with replacing(Path(path)) as file:
        pour_safetensors(file, tensors, metadata, types)


def pour_safetensors(
    file: Any, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None, types: Types | None = None
) -> None:
    """The same into a file that is open; it is written from its beginning to its end, but for a hash in `metadata`."""
    types = types or {}
    stored = {name: types.get(name, tensor.dtype) for name, tensor in tensors.items()}
    # wide types first, so that every tensor stays aligned
    order = sorted(tensors, key=lambda name: (-stored[name].itemsize, name))
    metadata = dict(metadata or {}) | ({HASH: NO_HASH} if HASH in (metadata or {}) else {})
    file.write(_header(order, tensors, stored, metadata))
    digest = hashlib.sha256()
    for name in order:
        content = _bytes(narrowed(name, tensors[name], stored[name]))
        if HASH in metadata:
            digest.update(content)
        file.write(content)
    if HASH in metadata:
        file.seek(0)
        file.write(_header(order, tensors, stored, metadata | {HASH: "0x" + digest.hexdigest()}))


def write_torch(path: str | Path, tensors: State, types: Types | None = None) -> None:
    """Write `{"state_dict": tensors}` to `path` as torch.save does, whole or not at all; all of it is copied first."""
    types = types or {}
    # A copy, since a view would take along all of the file that it is a view of.
    copies = {name: narrowed(name, value, types.get(name, value.dtype)).clone() for name, value in tensors.items()}
    with replacing(Path(path)) as file:
        torch.save({"state_dict": copies}, file)


def narrowed(name: str, tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor`, of any shape, as `dtype`. Raises `Fault` MOD07 where a finite number would become infinite."""
    result = tensor.to(dtype)
    if dtype.itemsize < tensor.dtype.itemsize and not result.isfinite().all() and tensor.isfinite().all():
        raise Fault(
            "MOD07",
            f"{name} does not fit into {DTYPES[dtype].lower()}",
            why=f"its largest number is {tensor.abs().max().item():.3g}, the largest there is {torch.finfo(dtype).max}",
            fix="dtype=bf16, or dtype=fp32",
        )
    return result


def require_space(folder: Path, size: int, what: str) -> None:
    """Raise `Fault` DSK01 unless the disk of `folder`, which need not exist yet, has `size` bytes left."""
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < size:
        raise Fault(
            "DSK01",
            f"not enough space for {what}: it needs {readable_size(size)}, {readable_size(free)} are free in {folder}",
            fix="make room, name another disk, or store half as much with dtype=fp16",
        )


@contextmanager
def write_errors_as_faults(what: str) -> Iterator[None]:
    """Turn what the file system says while `what` is written into `Fault` DSK01."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        fix = "make room, or name another disk" if error.errno == errno.ENOSPC else "name a place that can be written"
        why = "nothing half-written is left, and what was there before is as it was"
        raise Fault("DSK01", f"could not write {what}: {reason}", why=why, fix=fix) from error


def stored_size(tensors: State, types: Types | None = None) -> int:
    """Bytes that the tensors take in a file."""
    types = types or {}
    return sum(value.numel() * types.get(name, value.dtype).itemsize for name, value in tensors.items())


def _header(order: list[str], tensors: Mapping[str, Tensor], stored: Types, metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name in order:
        end = offset + tensors[name].numel() * stored[name].itemsize
        shape = list(tensors[name].shape)
        entries[name] = {"dtype": DTYPES[stored[name]], "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
