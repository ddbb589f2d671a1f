"""What a save costs each of several ranks under FSDP2: gathered on rank 0, and in parts that each rank writes.

    python tests/bench/saving_in_parts.py [million parameters] [ranks] [folder]

A stack of square matrices with AdamW and an EMA, all in fp32: 16 bytes a parameter. Each rank says how long the save
took (until the file stands in its place) and by how much its memory rose above what it held before.
"""

import ctypes
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from support.ranks import Ranks

WIDTH = 1024
REPEATS = 3
Row = tuple[float, float]


def highest() -> float:
    """Megabytes of memory that this process held at its highest, since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


def forget() -> None:
    """Give back what was freed, and begin to look for the highest anew."""
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")


def cost(parameters: int, folder: str) -> dict[str, Row]:
    """(seconds, megabytes more) of this rank for each kind of save; the least seconds of a few, the most memory."""
    from torch.distributed.fsdp import fully_shard

    from ldm.ema.lit_ema import LitEma
    from lun.checkpoints.atomic import AtomicIO
    from lun.strategies import shards
    from lun.strategies.checkpoint_parts import StateDicts

    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(parameters * 1_000_000 // WIDTH**2)]
    module = nn.Sequential(*layers)
    for layer in layers:
        fully_shard(layer)
    fully_shard(module)
    optimizer = torch.optim.AdamW(module.parameters())
    module(torch.randn(4, WIDTH)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    states = StateDicts()
    ema = LitEma(shards.ShardedParameters(module, states))

    def state() -> dict[str, Any]:
        weights = shards.module_state(module, states.sharded) | ema.state_dict()
        return {
            "state_dict": weights,
            "global_step": 1,
            "optimizer_states": [shards.optimizer_state(optimizer, states.sharded)],
        }

    def save(writer: AtomicIO, path: Path) -> None:
        whole = state()
        if distributed.get_rank() == 0:
            writer.save_checkpoint(whole, path)
        distributed.barrier()

    def save_in_parts(writer: AtomicIO, path: Path) -> None:
        with states.as_shards():
            writer.save_shards(state(), path)
        distributed.barrier()

    writer, rows = AtomicIO(), {"gathered on rank 0": [], "in parts": []}
    for turn in range(REPEATS + 1):
        for (name, found), act in zip(rows.items(), (save, save_in_parts), strict=True):
            forget()
            before, start = highest(), time.perf_counter()
            act(writer, Path(folder) / f"{name}.ckpt")
            if turn:  # the first file of a process is opened again
                found.append((time.perf_counter() - start, highest() - before))
    return {name: (min(s for s, _ in found), max(m for _, m in found)) for name, found in rows.items()}


def main(parameters: int, world_size: int, folder: Path) -> None:
    ranks = Ranks(folder, world_size, deadline=300.0)
    try:
        found = ranks(cost, parameters, str(folder))
    finally:
        ranks.close()
    print(f"{parameters} million parameters, {16 * parameters} MB, {world_size} ranks, torch {torch.__version__}\n")
    print("| | " + " | ".join(f"rank {rank}" for rank in range(world_size)) + " |\n" + "|---" * (1 + world_size) + "|")
    for name in found[0]:
        print(f"| {name} | " + " | ".join(f"{row[name][0]:.2f} s, {row[name][1]:.0f} MB" for row in found) + " |")


if __name__ == "__main__":
    words = dict(enumerate(sys.argv))
    with tempfile.TemporaryDirectory(dir=words.get(3)) as temporary:
        main(int(words.get(1, 40)), int(words.get(2, 2)), Path(temporary))
