"""The last state of a run, however it ends."""

import logging
import time
from pathlib import Path

from ldm.lightning_classes import Callback, LightningModule, Trainer
from lun.checkpoints.saving import (
    could_not_save,
    not_finite,
    prepare_saving,
    relative,
    run_directory,
    try_without_asking,
    weights_are_finite,
    write_checkpoint,
)
from lun.loop.boundary import agreement_of
from lun.loop.contract import step_of
from lun.loop.position_callback import follower
from lun.loop.rank_failures import last_saved

log = logging.getLogger(__name__)


class FinalCheckpoint(Callback):
    """Writes `last.ckpt` at every end of a run, and `on_exception.ckpt` when an error ends it.

    Ends are: all steps done, Ctrl-C, SIGTERM, SIGUSR1, the time limit; a stop amid a wait for a batch that never comes
    is a SystemExit (see `Stops`). It has to come after the other savers. A full disk is waited for here, since nothing
    comes after.

    dirpath        below the run directory
    wait_seconds   how long to try when the file cannot be written; then it is `Fault` DSK01
    pause_seconds  between two tries
    """

    doing = "saving"

    def __init__(self, dirpath: str = "checkpoints", wait_seconds: float = 300.0, pause_seconds: float = 10.0) -> None:
        self.dirpath = dirpath
        self.wait_seconds = wait_seconds
        self.pause_seconds = pause_seconds
        self._began: int | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        prepare_saving(trainer, run_directory(trainer) / self.dirpath)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began = step_of(pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        step = step_of(pl_module)
        path = self._path(trainer, "last.ckpt")
        if step == self._began and step > 0 and trainer.strategy.broadcast(path.exists()):
            return  # resumed and nothing done: the file that was resumed is this state
        if not weights_are_finite(pl_module):
            raise not_finite(trainer, step)
        tries = 1 + int(self.wait_seconds // self.pause_seconds)
        for left in reversed(range(tries)):
            if left == 0:
                try_without_asking(trainer)
            failure = write_checkpoint(trainer, path)
            if failure is None:
                log.info("saved %s at step %d", relative(trainer, path), step)
                return
            if left == 0:
                raise could_not_save(trainer, path, failure, f"tried for {self.wait_seconds:.0f} s")
            fault = could_not_save(trainer, path, failure, f"trying again for {left * self.pause_seconds:.0f} s")
            log.warning(fault.render("warning"))
            time.sleep(self.pause_seconds)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Keep what an error would lose, unless it is not worth keeping; never hide the error itself."""
        if isinstance(exception, KeyboardInterrupt) or self._began in (None, step_of(pl_module)):
            return
        name = "last.ckpt" if isinstance(exception, SystemExit) else "on_exception.ckpt"
        try:
            self._keep(trainer, pl_module, name)
        except Exception:  # whatever goes wrong here, the error that ended the run is the one to report
            log.warning("%s could not be saved", name, exc_info=True)

    def _keep(self, trainer: Trainer, pl_module: LightningModule, name: str) -> None:
        path = self._path(trainer, name)
        if trainer.world_size > 1 and not _all_stand_here(trainer):
            saved = last_saved(run_directory(trainer))
            kept = relative(trainer, saved) if saved else "none"
            log.warning("not saving %s: not all ranks could take part; the last checkpoint is %s", path.name, kept)
        elif follower(trainer).dirty:
            log.warning("not saving %s: the error came in the middle of an optimizer step", path.name)
        elif not weights_are_finite(pl_module):
            log.warning("not saving %s: weights are not finite", path.name)
        elif failure := write_checkpoint(trainer, path):
            log.warning(could_not_save(trainer, path, failure, "the run ends").render("warning"))
        else:
            log.info("saved %s at step %d", relative(trainer, path), step_of(pl_module))

    def _path(self, trainer: Trainer, name: str) -> Path:
        return run_directory(trainer) / self.dirpath / name


def _all_stand_here(trainer: Trainer) -> bool:
    """Whether `Stops` found, right before this, that all ranks are between the same two steps."""
    agreement = agreement_of(trainer)
    return agreement is not None and agreement.together
