"""How often each of several sets was read, in the loggers of a run."""

from typing import Any

from lightning.pytorch import Callback

from lun.loop.contract import data_of


class Laps(Callback):
    """Logs `lap/NAME` every `trainer.log_every_n_steps` optimizer steps: how often the set was read in full, as a real
    number.
    """

    def __init__(self) -> None:
        self._logged_at = 0

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step, every = pl_module.position.step, trainer.log_every_n_steps
        if every and step % every == 0 and step != self._logged_at:
            self._logged_at = step
            laps = {f"lap/{name}": lap for name, lap in data_of(trainer).laps().items()}
            for logger in trainer.loggers:
                logger.log_metrics(laps, step)
