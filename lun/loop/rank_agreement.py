"""How ranks agree on small numbers, and learn of each other's failures, without making the device wait."""

from collections.abc import Callable, Sequence
from datetime import timedelta

import torch
from torch import distributed

from ldm.lightning_classes import LightningModule, Trainer
from lun.loop.contract import step_of
from lun.loop.position_callback import follower
from lun.loop.rank_failures import another_rank_failed

PATIENCE = 20.0  # seconds


class RankAgreement:
    """The largest of the ranks' numbers, over one CPU side group; with one rank they are that rank's numbers.

    Everything here is collective: all ranks call it in the same order. Each exchange also says whether a rank has
    failed; the others then raise `Fault` TRN03, having found out where all of them stand.

    patience   seconds that a rank which failed waits for the others
    together   whether all ranks know of an error and stand between the same two steps
    """

    def __init__(self) -> None:
        self.patience = PATIENCE
        self.together = False
        self._group: distributed.ProcessGroup | None = None
        self._size = 0
        self._training: tuple[Trainer, LightningModule] | None = None
        self._voted: tuple[int, list[int]] | None = None

    def join(self, trainer: Trainer, pl_module: LightningModule, votes: int = 0) -> None:
        """Open the side group, if there is more than one rank; `votes` is the length of what `votes` exchanges."""
        self._training = (trainer, pl_module)
        self._size = max(2, 1 + votes)
        self._voted = None
        self._group = distributed.new_group(backend="gloo") if trainer.world_size > 1 else None

    @property
    def alone(self) -> bool:
        """Whether there is nobody to agree with."""
        return self._group is None

    def largest(self, number: int) -> int:
        """The largest of the ranks' numbers, each 0 or more."""
        return number if self.alone else self._exchanged([number])[0]

    def largest_and_votes(self, number: int, step: int, votes: Sequence[int]) -> int:
        """The largest of the ranks' numbers; their votes about the boundary of `step` are exchanged with it."""
        largest, *voted = self._exchanged([number, *votes])
        self._voted = (step, voted)
        return largest

    def votes(self, step: int, cast: Callable[[], Sequence[int]]) -> Sequence[int]:
        """The largest of each of the ranks' votes about a step boundary, exchanged now unless they were before."""
        if self._voted is None or self._voted[0] != step:
            own = cast()
            self._voted = (step, list(own) if self.alone else self._exchanged(own))
        return self._voted[1]

    def report_failure(self) -> None:
        """Let the others know that this rank failed, at their next exchange; gives up after `patience` seconds."""
        if not self.alone and self._reduced([], failed=True, seconds=self.patience) is not None:
            self._meet()

    def _exchanged(self, numbers: Sequence[int]) -> list[int]:
        failed, *largest = self._reduced(numbers) or [1]
        if failed:
            self._meet()
            assert self._training is not None
            raise another_rank_failed(self._training[0])
        return largest[: len(numbers)]

    def _meet(self) -> None:
        """All ranks know of an error: do they stand between the same two steps?"""
        assert self._training is not None
        trainer, pl_module = self._training
        here = -1 if follower(trainer).dirty else step_of(pl_module)
        reduced = None if self.alone else self._reduced([here, -here], seconds=self.patience)
        self.together = here >= 0 and reduced is not None and reduced[1:3] == [here, -here]

    def _reduced(self, numbers: Sequence[int], failed: bool = False, seconds: float | None = None) -> list[int] | None:
        """Whether a rank failed, then the largest numbers; None if a rank is not there within `seconds`, or gone.

        One length for every exchange, so that a failed rank's meets any of the others'.
        """
        padding = [0] * (self._size - len(numbers))
        tensor = torch.tensor([int(failed), *numbers, *padding], dtype=torch.int64)
        work = distributed.all_reduce(tensor, op=distributed.ReduceOp.MAX, group=self._group, async_op=True)
        try:
            work.wait() if seconds is None else work.wait(timedelta(seconds=seconds))
        except RuntimeError:
            if seconds is None:
                raise
            self._group = None  # whatever another rank sends now would answer this question, not the next one
            return None
        reduced: list[int] = tensor.tolist()
        return reduced
