"""Callbacks that stand for what comes upon one rank, and one that counts what ranks say to each other."""

import os
import signal
from pathlib import Path
from typing import Any, Literal

import torch
from lightning.pytorch import Callback
from torch import distributed

from lun.loop.boundary import AtStepBoundary

COLLECTIVES = ("broadcast", "all_reduce", "barrier", "all_gather", "all_gather_object", "broadcast_object_list")


class Terminated(Callback):
    """SIGTERM in the middle of the window after `step`, on each rank of `ranks`."""

    def __init__(self, step: int, ranks: list[int]) -> None:
        self.step = step
        self.ranks = ranks

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        begun = batch_idx % trainer.accumulate_grad_batches > 0
        if begun and pl_module.position.step == self.step and trainer.global_rank in self.ranks:
            os.kill(os.getpid(), signal.SIGTERM)


class Asked(Callback):
    """Commands {name: steps} that someone puts into `control/` beside the last rank, in the middle of a window."""

    def __init__(self, commands: dict[str, int]) -> None:
        self.commands = commands

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        if trainer.global_rank == trainer.world_size - 1:
            for name, step in self.commands.items():
                if step == pl_module.position.step:
                    (Path(trainer.default_root_dir) / "control" / name).touch()


class Fails(AtStepBoundary):
    """An error on one rank: at the boundary of `step`, or within the step after it."""

    def __init__(self, step: int, rank: int, where: Literal["boundary", "step"]) -> None:
        self.step = step
        self.rank = rank
        self.where = where

    def at_step(self, trainer: Any, pl_module: Any, step: int, final: bool) -> None:
        if self.where == "boundary":
            self._fail(trainer, step)

    def on_before_backward(self, trainer: Any, pl_module: Any, loss: torch.Tensor) -> None:
        if self.where == "step":
            self._fail(trainer, pl_module.position.step)

    def _fail(self, trainer: Any, step: int) -> None:
        if step == self.step and trainer.global_rank == self.rank:
            raise ValueError("a picture too many")


class Dies(Fails):
    """A rank is killed within the step after `step`, unless its launcher has already started it again."""

    def __init__(self, step: int, rank: int) -> None:
        super().__init__(step, rank, "step")

    def _fail(self, trainer: Any, step: int) -> None:
        if step == self.step and trainer.global_rank == self.rank and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)


class CountCollectives(Callback):
    """Counts in `counts` how often each of torch's collectives is called from Python between two steps' starts."""

    counts: dict[str, int] = {}

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        CountCollectives.counts = {}
        self._former = {name: getattr(distributed, name) for name in COLLECTIVES}
        for name in COLLECTIVES:
            setattr(distributed, name, self._counted(name))

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        for name, function in self._former.items():
            setattr(distributed, name, function)

    def _counted(self, name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.counts[name] = self.counts.get(name, 0) + 1
            return self._former[name](*arguments, **named)

        return call
