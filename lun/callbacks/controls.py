"""Commands to a running training: files in `control/` of its run directory, acted on between two steps."""

import logging
import os
import time
from pathlib import Path
from typing import Any

from ldm.lightning_classes import LightningModule, Trainer
from lun.callbacks.images import ImageLogger
from lun.callbacks.stops import INTERRUPTED, Stops
from lun.checkpoints.monitoring import validates
from lun.checkpoints.ranking import left_alone
from lun.checkpoints.saving import (
    could_not_save,
    not_finite,
    relative,
    run_directory,
    weights_are_finite,
    write_checkpoint,
)
from lun.loop.boundary import AtStepBoundary
from lun.loop.lightning_internals import micro_batches
from lun.loop.position_callback import follower

log = logging.getLogger(__name__)

COMMANDS = ("save", "sample", "validate", "stop")
COARSEST = 3.0
"""Seconds after which a change shows in a folder's time on any file system; FAT knows every second one."""


class Controls(AtStepBoundary):
    """Carries out `control/save`, `sample`, `validate` and `stop`; what the files hold does not matter.

    save      writes `checkpoints/asked/step-....ckpt`, which is kept
    sample    lets the image loggers draw at this step
    validate  validates at the end of the step that begins
    stop      ends the run as Ctrl-C does, with `last.ckpt`

    Rank 0 looks at every step boundary and all ranks do what it found, several ranks at the boundary after. A file goes
    once its command is carried out, that of a stop when it is taken up; what lies there at the start is of an earlier
    time and goes unheeded. This callback has to come before image loggers and `stops`.
    """

    doing = "saving"

    def __init__(self, stops: Stops) -> None:
        self.stops = stops
        self._folder = ""
        self._open: set[str] = set()
        self._interval: Any = None
        self._unknown: set[str] = set()
        self._stuck: set[str] = set()
        self._changed = self._unheard = -1
        self._known_since = 0.0

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._folder = str(_directory(trainer))
        self._open.clear()
        self._stuck.clear()
        if not trainer.is_global_zero:
            return
        try:
            _directory(trainer).mkdir(exist_ok=True)
        except OSError as error:
            log.warning("no commands can be given to this run: %s: %s", _directory(trainer), error.strerror)
            return
        for name in COMMANDS:
            if (_directory(trainer) / name).exists():
                log.info("note: control/%s is from before this start and is removed", name)
                self._finish(trainer, name)

    def vote(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> int:
        return self._look() if trainer.is_global_zero and not final else 0

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        if final:
            return
        act = {"save": self._save, "sample": self._sample, "validate": self._validate, "stop": self._stop}
        for number, name in enumerate(COMMANDS):
            if self.agreed >> number & 1 and name not in self._open:
                act[name](trainer, pl_module, step)

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if "sample" in self._open:
            self._finish(trainer, "sample")

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self._interval is not None:
            trainer.val_check_batch, self._interval = self._interval, None

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if "validate" in self._open and not trainer.sanity_checking:
            self._finish(trainer, "validate")

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_end(trainer, pl_module)
        for name in tuple(self._open):
            self._finish(trainer, name)

    def _look(self) -> int:
        """One bit for each command that lies there; a folder unchanged since nothing was heard is not read."""
        try:
            changed = os.stat(self._folder).st_mtime_ns
            if changed == self._unheard:
                return 0
            names = os.listdir(self._folder)
        except OSError:  # someone tidied up
            return 0
        heard = self._heard(names)
        if changed != self._changed:
            self._changed, self._known_since = changed, time.monotonic()
        elif not heard and time.monotonic() - self._known_since > COARSEST:
            self._unheard = changed
        return heard

    def _heard(self, names: list[str]) -> int:
        for name in sorted(set(names) - self._unknown - set(COMMANDS)):
            log.warning("control/%s is no command; there are %s", name, ", ".join(COMMANDS))
        self._unknown |= set(names)
        heard = set(names) - self._stuck - self._open
        return sum(1 << number for number, name in enumerate(COMMANDS) if name in heard)

    def _save(self, trainer: Trainer, pl_module: LightningModule, step: int) -> None:
        if not weights_are_finite(pl_module):
            raise not_finite(trainer, step)
        folder = run_directory(trainer) / "checkpoints" / "asked"
        path = left_alone(folder / f"step-{step:06d}.ckpt", follower(trainer).attempt)
        if failure := write_checkpoint(trainer, path):
            log.warning(could_not_save(trainer, path, failure, "ask again with control/save").render("warning"))
        else:
            log.info("control/save: saved %s at step %d", relative(trainer, path), step)
        self._finish(trainer, "save")

    def _sample(self, trainer: Trainer, pl_module: LightningModule, step: int) -> None:
        own = [callback for callback in trainer.callbacks if isinstance(callback, ImageLogger)]
        loggers = [logger for logger in own if not logger.disabled]
        for logger in loggers:
            logger.draw_next()
        log.info("control/sample: %s at step %d", "drawing" if loggers else "there is no image logger to draw", step)
        self._open.add("sample")

    def _validate(self, trainer: Trainer, pl_module: LightningModule, step: int) -> None:
        if not validates(trainer):
            log.info("control/validate: nothing is validated in this run")
            self._finish(trainer, "validate")
            return
        log.info("control/validate: validating at step %d", step + 1)
        # Lightning validates by this interval of micro-batches; for one step that is every step.
        self._interval, trainer.val_check_batch = trainer.val_check_batch, micro_batches(trainer, pl_module)
        self._open.add("validate")

    def _stop(self, trainer: Trainer, pl_module: LightningModule, step: int) -> None:
        log.info("control/stop: stopping at step %d", step)
        self._finish(trainer, "stop")
        self.stops.exit_code = INTERRUPTED

    def _finish(self, trainer: Trainer, name: str) -> None:
        """Remove the file of a command that was carried out, if it is still there."""
        self._open.discard(name)
        if not trainer.is_global_zero:
            return
        path = _directory(trainer) / name
        try:
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        except OSError as error:
            self._stuck.add(name)
            log.warning("control/%s cannot be removed and is not heeded again: %s", name, error.strerror)


def _directory(trainer: Trainer) -> Path:
    return run_directory(trainer) / "control"
