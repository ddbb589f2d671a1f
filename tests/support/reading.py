"""A process that reads the batches of one rank and prints a hash of each; it can be killed at any line of them."""

import hashlib
import json
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

from torch import Tensor

from ldm.position import Position
from lun.data.module import DataModuleFromConfig
from lun.data.order.position_sampler import Window

MICRO_BATCHES = {1: 4, 2: 2}
"""Ranks -> micro-batches of each in a step, so that a step holds the same examples."""
BATCH, SEED = 4, 7


def batches(recipe: Any, world: int, rank: int, step: int, **settings: Any) -> Iterator[str]:
    """A hash of each batch of this rank, from optimizer step `step` on, without end."""
    module = DataModuleFromConfig(batch_size=BATCH, train=recipe, **{"num_workers": 0, **settings})
    window = Window(BATCH, MICRO_BATCHES[world], world, rank)
    module.follow(Position(step=step, slot=step * window.global_batch), window, SEED, total_steps=1 << 20)
    return map(hashed, module.train_dataloader())


def hashed(batch: Any) -> str:
    """All that a batch holds."""
    digest = hashlib.sha256()
    for name in sorted(batch):
        value = batch[name]
        digest.update(name.encode())
        digest.update(value.numpy().tobytes() if isinstance(value, Tensor) else repr(value).encode())
    return digest.hexdigest()


def main() -> None:
    """`recipe`, `world`, `rank`, `step`, `count` and settings of the data module, as JSON in the first argument."""
    asked = json.loads(sys.argv[1])
    for line in islice(batches(asked.pop("recipe"), **asked["of"], **asked["settings"]), asked["count"]):
        print(line, flush=True)


if __name__ == "__main__":
    main()
