"""The savers: every so many steps or minutes, the best by a metric, and the last state of a run."""

import logging
import math
import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ldm.errors import Fault
from ldm.lightning_classes import LightningModule, Trainer
from lun.callbacks.final import FinalCheckpoint
from lun.checkpoints.checkpoint_files import remove_checkpoint
from lun.checkpoints.file_names import check_place, check_template, field_names, file_name
from lun.checkpoints.monitoring import never_logged, validates
from lun.checkpoints.ranking import Saved, left_alone, place, still_there, written_at
from lun.checkpoints.saving import (
    begin_checkpoint,
    could_not_save,
    not_finite,
    prepare_saving,
    relative,
    require_background,
    run_directory,
    weights_are_finite,
    write_checkpoint,
)
from lun.loop.boundary import AtStepBoundary
from lun.loop.contract import data_of, step_of
from lun.loop.position_callback import follower

__all__ = ["Checkpoint", "FinalCheckpoint"]

log = logging.getLogger(__name__)

WRITTEN, TIME_IS_UP = 1, 2  # votes


@dataclass(frozen=True)
class Begun:
    """A save at work: where and at which step, the files noted before it, and those that go once it is there."""

    path: Path
    step: int
    before: list[Saved]
    dropped: list[Saved]
    writing: "Future[None] | None" = None

    @property
    def done(self) -> bool:
        return self.writing is not None and self.writing.done()


class Checkpoint(AtStepBoundary):
    """Saves the whole training state every n steps and/or minutes, or after each validation that is among the best.

    filename             template below `dirpath`: `{epoch}` (ours), `{step}` and metrics, with formats and sub-folders
    dirpath              below the run directory
    every_n_train_steps  optimizer steps
    every_minutes        at latest so long after the last save, decided at step boundaries
    monitor, mode        metric whose best values are kept; acts after each validation, at no other time
    save_top_k           how many files stay: the best, or the newest without `monitor`; -1 keeps all
    outside              let dirpath and filename lead out of the run directory
    async_save           train on while the file is written; needs memory for a copy of the state

    A name without fields is overwritten in place. What cannot be written is logged, counted in `failed`, and retried
    when the next save is due. Weights that are not finite end the run (`Fault` TRN01) and are never saved.
    """

    doing = "saving"

    def __init__(
        self,
        filename: str,
        dirpath: str = "checkpoints",
        every_n_train_steps: int | None = None,
        every_minutes: float | None = None,
        monitor: str | None = None,
        mode: Literal["min", "max"] = "min",
        save_top_k: int = 1,
        async_save: bool = False,
        outside: bool = False,
    ) -> None:
        check_template(filename)
        check_place(dirpath, filename, outside)
        _require_one_occasion(filename, monitor, every_n_train_steps, every_minutes)
        self.filename = filename
        self.dirpath = dirpath
        self.every_n_train_steps = every_n_train_steps
        self.every_minutes = every_minutes
        self.monitor = monitor
        self.mode = mode
        self.save_top_k = save_top_k
        self.async_save = async_save
        self.failed = 0
        self.saved: list[Saved] = []
        self._score: float | None = None
        self._off = save_top_k == 0
        self._last_save = time.monotonic()
        self._begun: Begun | None = None

    @property
    def state_key(self) -> str:
        """By where it writes, so that a resume with other arguments still finds its files."""
        return f"Checkpoint {self.dirpath}/{self.filename}"

    def state_dict(self) -> dict[str, Any]:
        return {"saved": [entry.row() for entry in self.saved]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.saved = [Saved(*row) for row in state_dict["saved"]]

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        prepare_saving(trainer, run_directory(trainer) / self.dirpath)
        if self.async_save:
            require_background(trainer)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._last_save = time.monotonic()
        if self.monitor is not None and not validates(trainer):
            log.info("note: nothing is validated, so the best checkpoints by %s are not kept", self.monitor)
            self._off = True
        if self.save_top_k > 0:
            self.saved = trainer.strategy.broadcast(self._found(trainer, step_of(pl_module)))

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.monitor is None or self._off:
            return
        if self.monitor not in trainer.callback_metrics:
            self._miss(trainer, pl_module)
        elif not trainer.sanity_checking:
            self._score = trainer.strategy.broadcast(float(trainer.callback_metrics[self.monitor]))

    def vote(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> int:
        """That the minutes are over by this rank's clock, or that rank 0 has written what it began."""
        timed = self.every_minutes is not None and not self.first
        if timed and time.monotonic() - self._last_save >= 60 * float(self.every_minutes or 0):
            return TIME_IS_UP
        return WRITTEN if self._begun is not None and trainer.is_global_zero and self._begun.done else 0

    def at_step(self, trainer: Trainer, pl_module: LightningModule, step: int, final: bool) -> None:
        score, self._score = self._score, None
        due = not self.first and not self._off and self._due(step, score)
        if self._begun is not None and (due or self.agreed):
            self._conclude(trainer)
        if not due:
            return
        self._last_save = time.monotonic()
        if not weights_are_finite(pl_module):
            raise not_finite(trainer, step)
        if score is None or math.isfinite(score):
            self._save(trainer, step, score)
        else:
            log.warning("%s is %s at step %d: not kept", self.monitor, score, step)

    def _due(self, step: int, score: float | None) -> bool:
        if self.monitor is not None:
            return score is not None
        if self.every_n_train_steps and step % self.every_n_train_steps == 0:
            return True
        return self.agreed >= TIME_IS_UP

    def _save(self, trainer: Trainer, step: int, score: float | None) -> None:
        path = self._path(trainer, step)
        outcome = place(self.saved, Saved(relative(trainer, path), step, score), self.save_top_k, self.mode)
        if outcome is None:
            return
        # The file itself says which files are kept once it is there, so the list changes first.
        before, self.saved = self.saved, outcome.kept
        if self.async_save:
            self._begun = Begun(path, step, before, outcome.dropped, begin_checkpoint(trainer, path))
        else:
            self._written(trainer, Begun(path, step, before, outcome.dropped), write_checkpoint(trainer, path))

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_end(trainer, pl_module)
        if self._begun is not None:
            self._conclude(trainer)

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Let a file that is being written be finished; what becomes of it is of no more interest."""
        if self._begun is not None and self._begun.writing is not None:
            wait([self._begun.writing])

    def _conclude(self, trainer: Trainer) -> None:
        """Wait for the file that is being written in the background, and see to it on all ranks."""
        begun, self._begun = self._begun, None
        assert begun is not None and begun.writing is not None
        error = trainer.strategy.broadcast(begun.writing.exception())
        if error is not None and not isinstance(error, OSError | RuntimeError):
            raise error
        self._written(trainer, begun, error)

    def _written(self, trainer: Trainer, begun: "Begun", failure: OSError | RuntimeError | None) -> None:
        """Log how a save went; older files go only once the new one is there."""
        if failure is not None:
            self.saved = begun.before
            self.failed += 1
            fault = could_not_save(trainer, begun.path, failure, "tried again at the next due save")
            log.warning(fault.render("warning"))
            return
        log.info("saved %s at step %d", relative(trainer, begun.path), begun.step)
        if trainer.is_global_zero:
            for entry in begun.dropped:
                remove_checkpoint(run_directory(trainer) / entry.path)

    def _path(self, trainer: Trainer, step: int) -> Path:
        """Where to write. A name with fields that another attempt has taken is left to it."""
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        values = metrics | {"epoch": int(data_of(trainer).epoch), "step": step}
        root = run_directory(trainer)
        path = root / self.dirpath / file_name(self.filename, values)
        ours = {root / entry.path for entry in self.saved}
        if not field_names(self.filename) or path in ours:
            return path
        return left_alone(path, follower(trainer).attempt)

    def _found(self, trainer: Trainer, step: int) -> list[Saved]:
        """The files that count: those noted in the checkpoint that is resumed, and those of the same step."""
        root = run_directory(trainer)
        saved = still_there(root, self.saved)
        stored = follower(trainer).stored_attempt
        if stored is None:
            return saved
        later = written_at(root, root / self.dirpath, self.state_key, step, stored)
        return saved + [entry for entry in later if entry not in saved]

    def _miss(self, trainer: Trainer, pl_module: LightningModule) -> None:
        fault = never_logged(trainer, pl_module, str(self.monitor))
        if trainer.sanity_checking:
            raise fault
        log.warning(fault.render("warning"))
        self._off = True


def _require_one_occasion(filename: str, monitor: str | None, steps: int | None, minutes: float | None) -> None:
    if monitor is None and not steps and minutes is None:
        raise Fault(
            "CFG08",
            f"nothing says when to save {filename!r}",
            where="lightning.callbacks: a checkpoint's params",
            fix="every_n_train_steps: 2000, or every_minutes: 15, or monitor: val/loss_simple",
        )
    if monitor is not None and (steps or minutes is not None):
        raise Fault(
            "CFG08",
            f"{filename!r} has a monitor, so it is saved after validations and at no other time",
            where="lightning.callbacks: a checkpoint's params",
            why="every_n_train_steps or every_minutes is set as well",
            fix="leave out one of them, or use two checkpoints with names of their own",
        )
