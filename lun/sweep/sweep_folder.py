"""The folder of a sweep: a run directory for each trial, and how each trial ended."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal

from ldm.files.replacing import replace_text
from ldm.plain import read_json
from lun.run_dir.directory import RunDirectory
from lun.sweep.trials import Trial

STOPPED = (130, 143)
"""Exit codes of a run that was asked to stop, and saved."""
State = Literal["new", "interrupted", "done", "failed"]


@dataclass(frozen=True)
class SweepFolder:
    """`runs/` with the run directories, beside `ended/` with a note for each trial that ended."""

    path: Path

    def run_of(self, trial: Trial) -> RunDirectory | None:
        """The newest run directory of a trial; None before there is one."""
        last = None
        for run in self._places(trial):
            if not run.path.exists():
                return last
            last = run
        return last

    def free_place(self, trial: Trial) -> Path:
        """Where a trial that starts anew may make its run directory."""
        return next(run.path for run in self._places(trial) if not run.path.exists())

    def state(self, trial: Trial) -> State:
        """How far a trial is; one that nobody runs any more and that did not end is interrupted."""
        code = self.exit_code(trial)
        if code == 0:
            return "done"
        run = self.run_of(trial)
        if code is not None and code not in STOPPED:
            return "failed"
        return "new" if run is None else "interrupted"

    def exit_code(self, trial: Trial) -> int | None:
        """With which a trial ended last; None while it runs, and where it was killed."""
        try:
            noted: Any = read_json(self._note(trial))
            code = noted["exit_code"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return code if isinstance(code, int) else None

    def begin(self, trial: Trial) -> None:
        """Forget how a trial ended before. Raises OSError."""
        self._note(trial).unlink(missing_ok=True)

    def end(self, trial: Trial, code: int) -> None:
        """Note with which exit code a trial ended. Raises OSError."""
        self._note(trial).parent.mkdir(parents=True, exist_ok=True)
        replace_text(self._note(trial), json.dumps({"exit_code": code, "words": trial.words}) + "\n")

    def _note(self, trial: Trial) -> Path:
        return self.path / "ended" / f"{trial.name}.json"

    def _places(self, trial: Trial) -> Iterator[RunDirectory]:
        folder = self.path / "runs"
        yield RunDirectory(folder / trial.name)
        yield from (RunDirectory(folder / f"{trial.name}-{number}") for number in count(2))
