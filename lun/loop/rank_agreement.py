"""How ranks agree on a small number without making the device wait."""

from datetime import timedelta

import torch
from lightning.pytorch import Trainer
from torch import distributed


class Agreement:
    """The largest of the ranks' numbers, over a CPU side group; with one rank it is that rank's number.

    `join` and `largest` are collective: all ranks call them in the same order.
    """

    def __init__(self) -> None:
        self._group: distributed.ProcessGroup | None = None

    def join(self, trainer: Trainer) -> None:
        """Open the side group, if there is more than one rank."""
        self._group = distributed.new_group(backend="gloo") if trainer.world_size > 1 else None

    def largest(self, number: int) -> int:
        if self._group is None:
            return number
        tensor = torch.tensor(number, dtype=torch.int64)
        distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=self._group)
        return int(tensor)

    def largest_within(self, number: int, seconds: float) -> int | None:
        """The same, or None if a rank does not take part in time (it waits for something else, or is gone)."""
        if self._group is None:
            return None
        tensor = torch.tensor(number, dtype=torch.int64)
        try:
            work = distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=self._group, async_op=True)
            work.wait(timedelta(seconds=seconds))
        except RuntimeError:
            self._group = None  # whatever another rank sends now would answer this question, not the next one
            return None
        return int(tensor)
