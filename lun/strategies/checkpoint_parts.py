"""Checkpoints in parts: what a rank that holds everything writes of it, and who calls the writer."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lightning.pytorch.strategies.strategy import Strategy
from torch import Tensor, distributed, nn

from ldm.files.lazy_tensor import share
from ldm.files.rank_shards import replaced


class StateDicts:
    """How a strategy gives states of what lies on several ranks: whole and rank 0's alone, or as shards, on all.

    A shard is a `LazyShardedTensor` of what this rank holds. `sharded` says which is asked for at the moment.
    """

    def __init__(self) -> None:
        self.sharded = False

    @contextmanager
    def as_shards(self) -> Iterator[None]:
        """Within it, states are sharded."""
        self.sharded = True
        try:
            yield
        finally:
            self.sharded = False


def save(strategy: Any, checkpoint: dict[str, Any], path: str | Path, options: Any) -> None:
    """Let rank 0 write the checkpoint or, where the strategy's states are sharded, every rank its part of it."""
    if strategy.states.sharded:
        strategy.checkpoint_io.save_shards(checkpoint, path)
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
