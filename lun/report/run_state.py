"""Whether a run trains, how far it is, and how long it has to go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from ldm.shell import quoted
from lun.callbacks.line import duration
from lun.program import as_started
from lun.report.curves import Curves
from lun.run_dir.directory import RunDirectory
from lun.run_dir.lock import RunLock
from lun.run_dir.run_json import RunRecord

QUIET = 900.0
"""Seconds without a word after which a run on another machine is said to be silent."""


@dataclass(frozen=True)
class RunState:
    """How a run stands.

    word      training, done, stopped, failed, killed or unknown
    step      optimizer steps that it has; `total`, of how many, if that is known
    seconds   a step takes lately; `left`, until the last one, where it trains
    heard     when it logged last, seconds since 1970
    now       when this was found out
    """

    word: str
    why: str
    step: int
    total: int | None
    seconds: float | None
    heard: float | None
    now: float
    record: RunRecord | None

    @property
    def share(self) -> float | None:
        """How much of the run is over, 0 to 1."""
        return min(1.0, self.step / self.total) if self.total else None

    @property
    def left(self) -> float | None:
        if self.word != "training" or self.seconds is None or self.total is None:
            return None
        return max(0.0, (self.total - self.step) * self.seconds)

    @property
    def eta(self) -> str:
        """`2:03:09, at 2026-11-20 18:05`; empty where it is not known."""
        if self.left is None:
            return ""
        try:
            ends = datetime.fromtimestamp(self.now) + timedelta(seconds=self.left)
        except OverflowError:
            return "longer than can be said"
        return f"{duration(self.left)}, at {ends:%Y-%m-%d %H:%M}"

    @property
    def speed(self) -> str:
        if not self.seconds:
            return ""
        return f"{1 / self.seconds:.1f} steps/s" if self.seconds < 1 else f"{self.seconds:.1f} s a step"


def run_state(run: RunDirectory, record: RunRecord | None, curves: Curves, writing: bool, now: float) -> RunState:
    """The state by `run.json`, the run's lock and its newest metrics.

    writing   this process trains it: then nobody may open the lock, which the system would drop when it is closed
    """
    word, why = _state(run, record, curves.time, writing, now)
    steps = record.steps if record and record.status != "running" else 0
    total = record.total_steps if record and record.total_steps and record.total_steps > 0 else None
    step = max(curves.step or 0, steps)
    return RunState(word, why, step, total, curves.seconds_a_step, curves.time, now, record)


def _state(
    run: RunDirectory, record: RunRecord | None, heard: float | None, writing: bool, now: float
) -> tuple[str, str]:
    if record is None:
        return "unknown", "run.json is missing or cannot be read"
    if record.status != "running":
        code = "" if record.exit_code is None else f"exit code {record.exit_code}"
        return record.status, ", ".join(part for part in (code, record.ended.replace("T", " ")) if part)
    since = f"since {record.started.replace('T', ' ')}"
    if writing:
        return "training", since
    holder = RunLock(run.path).holder()
    if holder is None or not holder.lives():
        return "killed", "it ended without a word, and goes on from its newest checkpoint"
    if not holder.here and (heard is None or now - heard > QUIET):
        return "training", f"on {holder.host}, says its lock; nothing was logged for {QUIET / 60:.0f} minutes"
    return "training", since


def ways_on(run: RunDirectory, state: RunState) -> list[tuple[str, str]]:
    """What to do next, as (what for, command line)."""
    more = ["--max_steps", state.step + 1000] if state.total is not None and state.step >= state.total else []
    lines = [
        ("go on training", f"python main.py -r {quoted(run.path, '-t', *more)}"),
        ("draw pictures", f"python -m lun.sample {quoted(run.path)} 'a prompt'"),
        ("compare its checkpoints", f"python -m lun.compare {quoted(run.path)}"),
        ("make a file for other programs", f"python -m lun.convert {quoted(run.path)} out.safetensors --to ldm"),
    ]
    return [(what, as_started(line)) for what, line in lines]
