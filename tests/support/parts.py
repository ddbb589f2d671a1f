"""Ordinary checkpoints turned into checkpoints in parts, as one rank alone would have written them."""

from pathlib import Path

from support.runs import load

from ldm.files.lazy_tensor import LazyShardedTensor, Run
from ldm.files.rank_shards import replaced
from lun.checkpoints.atomic import AtomicIO


def put_in_parts(path: Path) -> Path:
    """Let all tensors but single numbers lie beside the checkpoint; returns the one file that holds them."""
    content = replaced(
        load(path),
        lambda tensor: tensor.numel() > 1,
        lambda _, tensor: LazyShardedTensor(tensor.shape, tensor.dtype, [Run(0, tensor.reshape(-1))]),
    )
    AtomicIO().save_shards(content, path)
    (shard,) = path.parent.glob(f"{path.name}.shards-*/rank-*")
    return shard
