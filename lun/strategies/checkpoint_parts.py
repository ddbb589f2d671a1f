"""Checkpoints in parts: what a rank that holds everything writes of it, and who calls the writer."""

from pathlib import Path
from typing import Any

from lightning.pytorch.strategies.strategy import Strategy
from torch import Tensor, distributed, nn

from ldm.files.lazy_tensor import is_left_spread, share
from ldm.files.rank_shards import replaced


def save(strategy: Strategy, checkpoint: dict[str, Any], path: str | Path, options: Any) -> None:
    """Let rank 0 write the checkpoint or, where states are `left_spread`, every rank its part of it."""
    if is_left_spread():
        strategy.checkpoint_io.save_checkpoint(checkpoint, path, options)
    else:
        Strategy.save_checkpoint(strategy, checkpoint, path, options)


def share_of(state: Any) -> Any:
    """This rank's part of the tensors in nested maps and lists which all ranks hold; small ones as they are."""
    rank, world_size = distributed.get_rank(), distributed.get_world_size()
    return replaced(state, lambda _: True, lambda _, tensor: share(tensor, rank, world_size))


def share_of_parameters(module: nn.Module, state: dict[str, Tensor]) -> dict[str, Any]:
    """`state` of a module with this rank's part of what are parameters; buffers may differ, so rank 0's count."""
    names = {name for name, _ in module.named_parameters()} & state.keys()
    shared: dict[str, Any] = share_of({name: state[name] for name in names})
    return {name: shared.get(name, tensor) for name, tensor in state.items()}
