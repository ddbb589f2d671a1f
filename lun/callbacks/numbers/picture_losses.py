"""Which pictures stand out: hard beside others at the same noise, or memorised."""

import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ldm.diffusion.number_limits import FROM_ONE, FROM_ZERO, require_limits
from ldm.files.replacing import replace_text
from ldm.lightning_classes import LightningModule, Trainer
from ldm.models.example_losses import Rows
from lun.callbacks.numbers.example_numbers import ExampleNumbers
from lun.callbacks.numbers.held_out_copies import Copies, held_out_copies
from lun.callbacks.numbers.picture_courses import Levels, PictureCourse, PictureCourses
from lun.data.dataset_protocol import DatasetAccess
from lun.loop.contract import data_of, step_of

log = logging.getLogger(__name__)

FILE = "metrics/pictures.json"
SHOWN = 200
NAMED = 3
STANDS_OUT = 1.0
"""Excess in standard deviations from which on a picture is worth a line in the log."""
SPLITS = {"train": "train", "val": "validation"}


class PictureLosses(ExampleNumbers):
    """Writes `metrics/pictures.json` after each validation, every so many steps and at the end: what stands out.

    Training pictures cost no forward pass of their own: the loss of each is compared with those of others of its set at
    the same noise level. Pictures for validation meet the same noise each time, so that their losses are logged as they
    are. High excess: mislabelled, damaged or rare; low: easy, or memorised. Held-out pictures that look like one
    of training are named at the start.

    follow               so many training pictures are followed; of more, evenly spread ones
    compare              so many training pictures are compared with those held out; 0 compares none
    every_n_train_steps  the file is written so often, besides
    """

    limits = {"follow": FROM_ONE, "compare": FROM_ZERO, "every_n_train_steps": FROM_ONE}

    def __init__(self, follow: int = 20_000, compare: int = 1_000, every_n_train_steps: int = 500) -> None:
        numbers = {"follow": follow, "compare": compare, "every_n_train_steps": every_n_train_steps}
        require_limits("PictureLosses", self.limits, numbers)
        self.follow = follow
        self.compare = compare
        self.every_n_train_steps = every_n_train_steps
        self.tables = {phase: PictureCourses() for phase in SPLITS}
        self.levels: dict[str, Levels] = {}
        self._written_at = 0
        self._copies: Copies = []
        self._stored: Mapping[str, Any] = {}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        data = data_of(trainer)
        self._sets = {phase: data.dataset(split) for phase, split in SPLITS.items() if data.has(split)}
        self._every = math.ceil(len(self._sets["train"]) / self.follow)
        self._path = Path(trainer.default_root_dir) / FILE
        self._writes = trainer.is_global_zero

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_start(trainer, pl_module)
        self._written_at = step_of(pl_module)
        self._restore()
        if self._every > 1:
            log.info("note: every %d. training picture is followed (follow: %d)", self._every, self.follow)
        if self._writes and "val" in self._sets:
            self._copies = held_out_copies(self._sets["train"], self._sets["val"], self.compare)

    def measure(self, phase: str, rows: Rows, step: int) -> Mapping[str, float]:
        if phase in self.tables:
            self._take(phase, rows, step)
            if phase == "val" or step - self._written_at >= self.every_n_train_steps:
                self._write(step)
        return {}

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        super().on_train_end(trainer, pl_module)
        self._write(step_of(pl_module))
        usual = self.tables["train"].usual_excess()
        outliers = [one for one in self.tables["train"].shown(2 * NAMED)[:NAMED] if one.excess - usual >= STANDS_OUT]
        if outliers and self._writes:
            names = ", ".join(f"{self._name('train', one.example)} ({one.excess - usual:.1f})" for one in outliers)
            log.info("note: pictures that stand out by their loss (%s): %s", FILE, names)

    def _take(self, phase: str, rows: Rows, step: int) -> None:
        sound = np.isfinite(rows["loss"]) & np.isfinite(rows["log_snr"]) & (rows["loss"] > 0) & (rows["example"] >= 0)
        columns = (rows[name][sound].tolist() for name in ("example", "log_snr", "loss"))
        for example, log_snr, loss in zip(*columns, strict=True):
            own = self._levels_of(phase, int(example))
            residual = own.residual(log_snr, loss)
            if phase == "val":
                self.tables[phase].add(int(example), step, loss, residual and residual.deviations, lasting=0.0)
                continue
            if residual is not None and int(example) % self._every == 0:
                self.tables[phase].add(int(example), step, residual.loss, residual.deviations)
            for levels in {id(one): one for one in (own, self._all)}.values():
                levels.add(log_snr, loss)

    @property
    def _all(self) -> Levels:
        return self.levels.setdefault("", Levels())

    def _levels_of(self, phase: str, example: int) -> Levels:
        """What a picture is compared with: training pictures of its set; those held out with all of training."""
        name = self._set_of(phase, example)
        return self._all if phase == "val" or name is None else self.levels.setdefault(name, Levels())

    def _set_of(self, phase: str, example: int) -> str | None:
        sets = self._sets[phase]
        return str(sets.set_of(example)) if hasattr(sets, "set_of") else None

    def _name(self, phase: str, example: int) -> str:
        return DatasetAccess(self._sets[phase]).path(example)

    # The file

    def _write(self, step: int) -> None:
        self._written_at = step
        if not self._writes:
            return
        shown = [(phase, one) for phase, table in self.tables.items() for one in table.shown(SHOWN)]
        usual = self.tables["train"].usual_excess()
        entries = [self._entry(phase, one, usual) for phase, one in sorted(shown, key=lambda each: -each[1].excess)]
        text = json.dumps({"step": step, "pictures": entries, "copies": self._copies}, allow_nan=False)
        try:
            replace_text(self._path, text + "\n")
        except OSError as error:
            log.warning("%s cannot be written for now: %s", self._path, error.strerror)

    def _entry(self, phase: str, one: PictureCourse, usual: float) -> dict[str, Any]:
        numbers = {"loss": one.loss, "excess": one.excess - usual, "first": one.first}
        place = {"path": self._name(phase, one.example), "set": self._set_of(phase, one.example), "split": phase}
        trace = [[step, _short(loss)] for step, loss in one.trace]
        return {**place, "n": one.n, **{name: _short(value) for name, value in numbers.items()}, "trace": trace}

    # Checkpoints

    def state_dict(self) -> dict[str, Any]:
        return {
            "tables": {phase: table.state_dict() for phase, table in self.tables.items()},
            "levels": {name: torch.tensor(levels.numbers, dtype=torch.float64) for name, levels in self.levels.items()},
            "data": self._prints(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._stored = state_dict

    def _restore(self) -> None:
        """Go on with what a checkpoint held, of data that are the same still: a number means another picture else."""
        stored, self._stored = self._stored, {}
        prints = self._prints()
        for phase, print_ in stored.get("data", {}).items():
            if prints.get(phase) == print_:
                self.tables[phase].load_state_dict(stored["tables"][phase])
        for name, numbers in stored.get("levels", {}).items():
            self.levels[name] = Levels(numbers.tolist())

    def _prints(self) -> dict[str, str]:
        return {phase: DatasetAccess(dataset).fingerprint() for phase, dataset in self._sets.items()}


def _short(number: float) -> float:
    return float(f"{number:.5g}")
