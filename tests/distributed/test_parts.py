"""Checkpoints in parts where a rank is killed while all of them write."""

import random
import threading
import time
from itertools import count
from pathlib import Path

import pytest
import torch
from support.ranks import Ranks

from ldm.files.lazy_tensor import share
from ldm.files.read import read_state_dict
from lun.checkpoints.atomic import AtomicIO, clean_leftovers, unreadable

SIZE = 1 << 21


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("rank", [0, 1, 0, 1])
def test_a_rank_killed_while_all_write_leaves_a_whole_checkpoint(rank: int, tmp_path: Path) -> None:
    group = Ranks(tmp_path / "ranks")
    path = tmp_path / "a.ckpt"
    chance = random.Random(tmp_path.name)

    def kill() -> None:
        while not path.exists():
            time.sleep(0.01)
        time.sleep(chance.uniform(0.5, 1.5))
        group.kill(rank, 9)

    threading.Thread(target=kill, daemon=True).start()
    try:
        with pytest.raises(AssertionError, match=f"rank .*{rank}.* failed"):
            group(save_for_ever, str(path))
    finally:
        group.close()
    assert unreadable(path) is None
    state = read_state_dict(path)
    step = int(state["step"])
    assert step > 0 and all(bool((tensor == step).all()) for tensor in state.values())
    clean_leftovers(tmp_path)
    assert len([*tmp_path.glob("*shards-*")]) == 1 and unreadable(path) is None


def save_for_ever(path: str) -> None:
    writer = AtomicIO()
    for step in count(1):
        whole = {name: torch.full((SIZE,), float(step)) for name in ("a", "b")}
        rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        state = {name: share(tensor, rank, world_size) for name, tensor in whole.items()}
        writer.save_shards({"state_dict": state | {"step": torch.tensor(step)}, "global_step": step}, path)
