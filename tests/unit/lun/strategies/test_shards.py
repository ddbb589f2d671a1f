"""What each rank holds of a tensor that FSDP2 has spread, with ranks that one process plays in turn."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.distributed.fake_pg import FakeStore

from ldm.files.lazy_tensor import LazyShardedTensor, Run, covers
from lun.strategies import shards
from lun.strategies.checkpoint_parts import StateDicts


@pytest.fixture
def as_rank(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, int], None]]:
    """`as_rank(rank, world_size)`: be that rank from now on."""
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)  # each group wraps it, and none gives it back

    def become(rank: int, world_size: int) -> None:
        if distributed.is_initialized():
            distributed.destroy_process_group()
        distributed.init_process_group("fake", rank=rank, world_size=world_size, store=FakeStore())

    yield become
    distributed.destroy_process_group()


def spread_over(whole: Tensor, copies: int, parts: int) -> DTensor:
    mesh = init_device_mesh("cpu", (copies, parts), mesh_dim_names=("replicate", "shard"))
    return distribute_tensor(whole, mesh, [Replicate(), Shard(0)], src_data_rank=None)


@pytest.mark.parametrize("shape", [(8, 3), (5, 2, 2), (3,), (1, 7)])
@pytest.mark.parametrize(("copies", "parts"), [(1, 2), (1, 4), (2, 2)])
def test_ranks_together_hold_each_element_once(
    as_rank: Callable[[int, int], None], shape: tuple[int, ...], copies: int, parts: int
) -> None:
    whole = torch.randn(shape)
    runs = []
    for rank in range(copies * parts):
        as_rank(rank, copies * parts)
        like = spread_over(whole, copies, parts)
        held = shards.lazy_shard(like.to_local(), like)
        assert held.shape == whole.shape and type(held) is LazyShardedTensor
        runs += held.runs
    assert covers(sorted(run.bounds for run in runs), whole.numel())
    assert torch.equal(LazyShardedTensor(shape, whole.dtype, runs).whole(), whole)


@pytest.mark.parametrize("rank", range(3))
def test_a_whole_tensor_is_cut_as_torch_cuts_it(as_rank: Callable[[int, int], None], rank: int) -> None:
    as_rank(rank, 3)
    whole = torch.randn(7, 2)
    like = spread_over(torch.zeros(7, 2), 1, 3)
    expected = spread_over(whole, 1, 3).to_local()
    row = whole.reshape(-1)
    for given in (whole, LazyShardedTensor((7, 2), whole.dtype, [Run(0, row[:5]), Run(5, row[5:])])):
        found = shards.cut(given, like)
        assert found.shape == (7, 2) and torch.equal(found.to_local(), expected)


def test_a_sharded_state_shares_out_what_every_rank_holds(as_rank: Callable[[int, int], None]) -> None:
    module: Any = nn.Sequential(nn.Linear(200, 100), nn.BatchNorm1d(20000)).requires_grad_(False)
    states = []
    for rank in range(2):
        as_rank(rank, 2)
        states.append(shards.module_state(module, sharded=True))
    assert [name for name, value in states[0].items() if isinstance(value, LazyShardedTensor)] == [
        "0.weight",
        "1.weight",
        "1.bias",
    ]
    runs = [run for state in states for run in state["0.weight"].runs]
    assert torch.equal(LazyShardedTensor((100, 200), torch.float32, runs).whole(), module[0].weight)
    assert shards.module_state(module) == {}  # whole it is rank 0's alone


def test_a_strategy_gives_shards_only_while_they_are_asked_for(as_rank: Callable[[int, int], None]) -> None:
    as_rank(1, 2)
    states = StateDicts()
    module = nn.Linear(4, 4)
    source = shards.ShardedParameters(fully_shard(module, mesh=init_device_mesh("cpu", (2,))), states)
    with pytest.raises(OSError, match="full"), states.as_shards():
        assert [len(tensor.runs) for tensor in source.whole(source.tensors()).values()] == [1, 1]
        raise OSError("the disk is full")
    assert source.whole(source.tensors()) == {}  # whole it is rank 0's alone
