"""Whether two runs ended in the same state, to the bit."""

from pathlib import Path
from typing import Any

import torch
from support.runs import load

from ldm.files.rank_shards import with_tensors


def differences(a: Any, b: Any, at: str = "") -> list[str]:
    """Where two checkpoints differ in any bit."""
    if isinstance(a, torch.Tensor):
        return [] if torch.equal(a, b) and a.dtype == b.dtype else [at]
    if isinstance(a, dict):
        found = [f"{at}.{key} on one side only" for key in a.keys() ^ b.keys()]
        return found + [d for key in a.keys() & b.keys() for d in differences(a[key], b[key], f"{at}.{key}")]
    if isinstance(a, list | tuple):
        if len(a) != len(b):
            return [at]
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{at}[{i}]")]
    return [] if a == b else [at]


def final_state(run: Path, file: str = "last.ckpt") -> dict[str, Any]:
    """The last checkpoint of a run without what names the attempt, also where it lies in parts."""
    path = run / "checkpoints" / file
    checkpoint = with_tensors(load(path), path)
    checkpoint.pop("callbacks", None)
    for name in ("attempt", "resumed_from"):
        checkpoint["lun"].pop(name)
    return checkpoint
