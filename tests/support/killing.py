"""Runs that are ended again and again, at any moment and in any way, until they have all their steps."""

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load_file
from support.equality import differences, final_state
from support.forks import Program
from support.runs import TINY, load, newest_run
from support.warm import VALIDATION

from lun.checkpoints.atomic import unreadable

STEPS = 30
EVERY_SECOND = "every-2k-steps.ckpt"
SAVERS = [
    "lightning.callbacks.periodic_checkpoint_overwrite={target: lun.callbacks.Checkpoint,"
    " params: {filename: every-2k-steps, every_n_train_steps: 2}}",
    "lightning.callbacks.periodic_checkpoint={target: lun.callbacks.Checkpoint,"
    " params: {filename: 'periodic/gs={step:06d}', every_n_train_steps: 10, save_top_k: -1}}",
    "lightning.callbacks.monitored_checkpoint={target: lun.callbacks.Checkpoint, params:"
    " {filename: 'monitor/gs={step:06d}', monitor: val/loss_simple_ema, save_top_k: 2}}",
]
WORDS = [f"lightning.trainer.max_steps={STEPS}", "lightning.trainer.val_check_interval=5", VALIDATION, *SAVERS]
ENDS = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGHUP: 143}
"""Signals, and the exit code of a program that one of them ended."""
RESUMED = re.compile(r"^resumed  (\S+) at step (\d+)$", re.MULTILINE)

Start = Callable[[list[str], Path], AbstractContextManager[Program]]


@dataclass(frozen=True)
class Ends:
    """How a run is ended. A share of them comes in the middle of a save, a share is followed by a resume of an older
    checkpoint than the newest, by its name; the others come up to `within` seconds after the start."""

    signals: tuple[signal.Signals, ...] = (signal.SIGKILL,)
    in_saves: float = 0.5
    branches: float = 0.0
    within: float = 1.2


@dataclass(frozen=True)
class Saved:
    """A whole checkpoint of a run."""

    path: Path
    step: int
    attempt: int


@dataclass
class Killed:
    """One run that is ended until it has all its steps, and what was seen on the way."""

    start: Start
    folder: Path
    settings: list[str]
    chance: random.Random
    ends: Ends = Ends()
    counts: Counter[str] = field(default_factory=Counter)
    _may: set[int] = field(default_factory=set)

    def run(self, pictures: Path, times: int) -> Path:
        """Carry it out; returns the run directory. At most `times` ends, then it is left alone."""
        first = ["--base", str(TINY), "--logdir", "logs", "--data_root", str(pictures), "-t", *WORDS, *self.settings]
        words = first
        while True:
            with self.start(words, self.folder) as program:
                number = self.end(program) if self.counts["ends"] < times else None
                code = program.code()
                self.check(program, code, number)
            if code == 0:
                return newest_run(self.folder / "logs")
            self.counts[f"by {signal.Signals(number or 0).name}"] += 1
            self.counts["ends"] += 1
            words = self.next_words() or first

    def end(self, program: Program) -> signal.Signals | None:
        """Send a signal at a random moment, to the program or to its group; None if it has ended before."""
        program.until(program.listens)
        number = self.chance.choice(self.ends.signals)
        group = number != signal.SIGKILL and self.chance.random() < 0.5
        if self.chance.random() < self.ends.in_saves:
            saves = self.chance.randrange(8)
            program.until(lambda: program.said().count("saved ") >= saves and saving(self.folder))
            time.sleep(self.chance.uniform(0, 0.01))
        else:
            until = time.monotonic() + self.chance.uniform(0, self.ends.within)
            program.until(lambda: time.monotonic() > until)
        if not program.running:
            return None
        program.send(number, group)
        return number

    def check(self, program: Program, code: int, number: signal.Signals | None) -> None:
        """What holds after every end: the exit code says why, nothing is left of it, it went on from the newest."""
        said = program.said()
        assert code in ({0, ENDS[number]} if number else {0}), f"exit code {code} after {number}:\n{said}"
        assert "Traceback" not in said and "error[" not in said, said
        assert program.orphans() == []
        self.counts["starts"] += 1
        found = RESUMED.search(said)
        self.counts["before it said where it goes on"] += bool(self._may) and found is None
        if self._may and found:
            assert int(found[2]) in self._may, (self._may, said)

    def next_words(self) -> list[str] | None:
        """The command line that goes on; None where nothing was saved, so that one begins again."""
        self.counts["during a save"] += saving(self.folder)
        run = next((run for run in runs_in(self.folder) if whole_checkpoints(run)), None)
        if run is None:
            self.counts["before the first save"] += 1
            self._may = set()
            return None
        files = whole_checkpoints(run)
        older = [file for file in files if file.step < max(file.step for file in files)]
        if older and self.chance.random() < self.ends.branches:
            self.counts["branches"] += 1
            chosen = self.chance.choice(older)
            self._may = {chosen.step}
            return ["-r", str(chosen.path), "-t"]
        self._may = {newest_step(run, files)}
        return ["-r", str(run), "-t"]


def runs_in(folder: Path) -> list[Path]:
    """The newest first."""
    found = [path for path in folder.glob("logs/*") if path.is_dir() and not path.is_symlink()]
    return sorted(found, key=lambda path: path.stat().st_ctime_ns, reverse=True)


def saving(folder: Path) -> bool:
    try:
        return any((folder / "logs").glob("*/checkpoints/**/.*.tmp-*"))
    except FileNotFoundError:  # the folder of an older save went while it was looked through
        return True


def whole_checkpoints(run: Path) -> list[Saved]:
    """The run's checkpoints, each of which has to be whole."""
    found = []
    for path in run.rglob("checkpoints/**/*.ckpt"):
        if not path.name.startswith("."):
            assert unreadable(path) is None
            about = load(path)["lun"]
            found.append(Saved(path, about["position"]["step"], about["attempt"]))
    return found


def newest_step(run: Path, files: list[Saved]) -> int:
    """The highest step of the attempt that began last; of what that went on from, where it saved nothing."""
    record = json.loads((run / "run.json").read_text())
    attempt = max([record["attempt"], *(file.attempt for file in files)])
    if own := [file.step for file in files if file.attempt == attempt]:
        return max(own)
    (source,) = (file for file in files if file.path.relative_to(run).as_posix() == record["resumed_from"])
    return source.step


def compare(straight: Path, run: Path) -> None:
    """To the bit: all that the last checkpoints hold, what was logged of losses, the snapshots of the averages."""
    # Both files hold the last step; an end between the two saves leaves the first alone.
    assert differences(final_state(straight), final_state(run, EVERY_SECOND)) == []
    assert set(metrics(run)) == set(metrics(straight))
    require_snapshots(straight, run)
    assert [file.name for file in run.rglob(".*")] == [".lock"]
    assert (run / ".lock").read_text() == ""  # nobody holds it
    assert len([*run.rglob("*.shards-*")]) in (0, len([*run.rglob("*.ckpt")]))


def metrics(run: Path) -> Iterator[tuple[int, str, float]]:
    """What was logged of losses, each time that it was."""
    for line in (run / "metrics.jsonl").read_text().splitlines():
        row = json.loads(line)
        yield from ((row["step"], name, value) for name, value in row.items() if "loss" in name)


def require_snapshots(straight: Path, run: Path) -> None:
    """Of the averages: those of the straight run, each bit; a branch writes its own beside those that it left."""
    wanted = {path.name: path for path in straight.glob("ema-snapshots/*.safetensors")}
    found = {path: re.sub(r"-attempt\d+", "", path.name) for path in run.glob("ema-snapshots/*.safetensors")}
    assert set(found.values()) == wanted.keys()
    for path, name in found.items():
        assert differences(load_file(wanted[name]), load_file(path)) == [], path
