"""What callbacks share that watch the losses of single examples: one read of the device a log."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed

from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.models.example_losses import Column, Rows
from lun.loop.contract import step_of

PHASES = ("val", "val_ema")


class ExampleNumbers(Callback):
    """Measures the losses of all ranks' examples when a log is due and after each validation, and logs what it makes of
    them. Only looks on: weights, draws and averages stay what they are.

    A run has as many of these as it names; the first reads for all of them.
    """

    def columns(self) -> Mapping[str, Column]:
        """Further columns of the rows, which the host knows of a batch."""
        return {}

    def measure(self, phase: str, rows: Rows, step: int) -> Mapping[str, float]:
        """Numbers to log, the same on every rank, of the rows of a phase (`ExampleLosses`) since the last call."""
        raise NotImplementedError

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        require_logs(self, trainer)
        examples = getattr(pl_module, "examples", None)
        if examples is None:
            raise _no_diffusion_model(self, pl_module)
        examples.watch(self.columns())
        self._logged_at: int | None = None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = pl_module.position.step
        if step % trainer.log_every_n_steps == 0 and step != self._logged_at and self._reads(trainer):
            self._logged_at = step
            log_all(trainer, pl_module, "train")

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._logged_at = step_of(pl_module)  # with several micro-batches a step, the first ends at this step still

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if step_of(pl_module) != self._logged_at and self._reads(trainer):
            log_all(trainer, pl_module, "train")

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if not self._reads(trainer):
            return
        for phase in PHASES:
            if trainer.sanity_checking:
                pl_module.examples.drop(phase)
            elif phase == "val" or pl_module.model_ema is not None:
                log_all(trainer, pl_module, phase)

    def _reads(self, trainer: Any) -> bool:
        return next(one for one in trainer.callbacks if isinstance(one, ExampleNumbers)) is self


def log_all(trainer: Any, pl_module: Any, phase: str) -> None:
    """Read the rows of a phase, give them to each `ExampleNumbers` of a trainer, and log its numbers. Collective."""
    rows = pl_module.examples.take(phase, pl_module.objective.path)
    if trainer.world_size > 1:
        rows = of_all_ranks(rows, gathered, trainer.strategy.reduce, pl_module.device)
    if not len(rows["loss"]):
        return
    step, numbers = step_of(pl_module), dict[str, float]()
    for one in trainer.callbacks:
        if isinstance(one, ExampleNumbers):
            numbers |= one.measure(phase, rows, step)
    if numbers:
        for logger in trainer.loggers:
            logger.log_metrics(numbers, step)


def of_all_ranks(
    rows: Rows, gather: Callable[[Tensor], Tensor], reduce: Callable[..., Any], device: torch.device
) -> Rows:
    """The rows of all ranks, in the order of these; a rank may have more than another. Collective.

    gather  (m, c) of each rank to (ranks, m, c)
    """
    table = torch.tensor(np.stack([*rows.values()], axis=1))
    length = int(reduce(torch.tensor(float(len(table)), device=device), reduce_op="max"))
    padded = torch.full((length, table.shape[1] + 1), -1.0, dtype=torch.float64)
    padded[: len(table), :-1], padded[: len(table), -1] = table, 1.0
    every = gather(padded.to(device)).cpu().reshape(-1, padded.shape[1])
    columns = every[every[:, -1] > 0].T.contiguous().numpy()
    return dict(zip(rows, columns[:-1], strict=True))


def gathered(table: Tensor) -> Tensor:
    """(m, c) of each rank as (ranks, m, c). Collective."""
    tables = [torch.empty_like(table) for _ in range(distributed.get_world_size())]
    distributed.all_gather(tables, table)
    return torch.stack(tables)


def require_logs(callback: Callback, trainer: Any) -> None:
    """Raise `Fault` CFG08 where nothing is ever logged, so that this callback would do nothing."""
    if not trainer.log_every_n_steps:
        name = type(callback).__name__
        raise Fault(
            "CFG08",
            f"{name} has no effect where nothing is logged",
            where="lightning.trainer.log_every_n_steps",
            fix="lightning.trainer.log_every_n_steps=50, or leave the callback out",
        )


def _no_diffusion_model(callback: Callback, model: LightningModule) -> Fault:
    return Fault(
        "CFG08",
        f"{type(callback).__name__} needs a diffusion model",
        where="lightning.callbacks",
        why=f"{type(model).__name__} has no noise levels",
        fix="leave it out",
    )
