"""Build Lightning's Trainer: the program's own callbacks around the user's, defaults under what the config says."""

from collections.abc import Callable
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.loggers import Logger
from torch import Tensor

from ldm.lightning_classes import as_lightning
from lun.console.collecting import collect_from_here
from lun.run.resolved import ResolvedRun


class ProgramTrainer(Trainer):
    """Lightning's Trainer, whose callbacks read the latest step's metrics though loggers get one in many."""

    @property
    def callback_metrics(self) -> dict[str, Tensor]:
        latest: Callable[[], dict[str, Tensor]] = getattr(self.lightning_module, "latest_metrics", dict)
        return super().callback_metrics | latest()


class CollectOnceBuilt(Callback):
    """Lets Python look for garbage again once networks and optimizers, and what they import, are there."""

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        collect_from_here()


def build_trainer(
    resolved: ResolvedRun,
    validates: bool,
    callbacks: list[Callback],
    loggers: list[Logger],
    run: Path,
    by_hand: tuple[str, ...] = (),
) -> Trainer:
    """The Trainer of a settled run; Lightning counts validation intervals in micro-batches.

    by_hand   arguments that the model carries out itself, so that Lightning must not
    """
    given = resolved.execution.trainer_arguments()
    settings = {name: value for name, value in given.items() if name not in by_hand} | {
        "max_steps": resolved.length.max_steps,
        "val_check_interval": resolved.length.val_every * resolved.window.accumulate,
    }
    if not validates:
        settings["limit_val_batches"] = 0
    callbacks = [as_lightning(callback) for callback in callbacks]
    if resolved.execution.settings.get("enable_progress_bar") is False:
        callbacks = [callback for callback in callbacks if not isinstance(callback, ProgressBar)]
    callbacks.append(CollectOnceBuilt())
    bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    return ProgramTrainer(
        **settings, callbacks=callbacks, logger=loggers or False, enable_progress_bar=bar, default_root_dir=str(run)
    )
