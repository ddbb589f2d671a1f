"""When a run becomes the newest one."""

from ldm.lightning_classes import Callback, LightningModule, Trainer
from lun.run_dir.directory import RunDirectory


class LinkLatest(Callback):
    """Points `latest` to a run once its training begins: from then on every end but a kill leaves a checkpoint.

    A start that ended before, by a signal or a fault, so leaves `latest` at the run that `-r` can go on with.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run = run

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.is_global_zero:
            self.run.link_latest()
