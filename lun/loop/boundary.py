"""The one moment at which savers, samplers and stops act: between two optimizer steps, after a validation due there."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lun.loop.contract import step_of


class AtStepBoundary(Callback):
    """Calls `at_step` once for every value of `pl_module.position.step`, that at which a process starts included.

    The moment is the next `on_train_batch_start` after a completed accumulation window, so that a validation due at
    that step has run; for the last step it is `on_train_end`, with `final=True`. All ranks call it at the same step.

    first   true while `at_step` runs for the step at which this process started (0, or the resumed one)
    """

    first: bool = False
    _seen: int | None = None

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        """Act on `step` completed optimizer steps; `final` says that no further step follows."""
        raise NotImplementedError

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._seen = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._arrive(trainer, pl_module, final=False)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._arrive(trainer, pl_module, final=True)

    def _arrive(self, trainer: Trainer, pl_module: LightningModule, final: bool) -> None:
        step = step_of(pl_module)
        if step == self._seen:
            return
        self.first, self._seen = self._seen is None, step
        self.at_step(trainer, pl_module, step, final)
