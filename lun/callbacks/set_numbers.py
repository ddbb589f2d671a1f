"""What each of several sets did in a run, in its loggers: how often it was read, and its losses."""

from typing import Any

from ldm.lightning_classes import Callback
from lun.loop.contract import data_of


class SetNumbers(Callback):
    """Logs every `trainer.log_every_n_steps` optimizer steps, by the NAME of each set:

    lap/NAME         how often it was read in full, a real number
    train/loss/NAME  the mean of `train/loss` over its examples since this was last logged, of all ranks
    """

    def __init__(self) -> None:
        self._logged_at = 0

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step, every = pl_module.position.step, trainer.log_every_n_steps
        if every and step % every == 0 and step != self._logged_at:
            self._logged_at = step
            laps = data_of(trainer).laps()
            losses = pl_module.by_set.take([*laps], trainer.strategy.reduce, pl_module.device)
            numbers = {f"lap/{name}": lap for name, lap in laps.items()}
            numbers |= {f"train/loss/{name}": loss for name, loss in losses.items()}
            for logger in trainer.loggers:
                logger.log_metrics(numbers, step)
