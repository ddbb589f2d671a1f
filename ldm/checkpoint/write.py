"""Weights into a .safetensors file that is whole or absent, and the same byte for byte each time."""

import json
import os
import struct
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_safetensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
) -> None:
    """Write `tensors` to `path`, one at a time and without a second copy of all of them in memory.

    The file appears under its name only when it is complete; one that was there before stays until then. Keys of
    `metadata` are sorted, which safetensors' own writer does not do. Raises OSError as the file system does.
    A mapping that makes its tensors when asked is asked for one at a time, and more than once.
    """
    path = Path(path)
    # wide types first, so that every tensor stays aligned
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("wb") as file:
            file.write(_header(order, tensors, metadata or {}))
            for name in order:
                file.write(_bytes(tensors[name]))
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _header(order: list[str], tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    entries: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))} if metadata else {}
    offset = 0
    for name in order:
        end = offset + tensors[name].numel() * tensors[name].element_size()
        shape = list(tensors[name].shape)
        entries[name] = {"dtype": DTYPES[tensors[name].dtype], "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
