"""Running trials, each in a process of its own that hears the signals which this one gets."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import lun
from ldm.shell import quoted
from lun.run_dir.directory import VARIABLE
from lun.sweep.sweep_folder import STOPPED, SweepFolder
from lun.sweep.trials import Trial

log = logging.getLogger(__name__)

PASSED_ON = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
OF_ANOTHER_START = ("LUN_JOB", "SLURM_RESTART_COUNT", VARIABLE, "LUN_SEED", "LUN_START", "LUN_HOLDER")
"""What would have a run go on with another of this job, or think itself a rank of it."""
BY_SIGNAL = 128

Launch = Callable[[Sequence[str], Mapping[str, str]], int]
"""Runs `main.py` with words and further environment variables, and returns its exit code."""


def run_trials(
    folder: SweepFolder,
    trials: Sequence[Trial],
    launch: Launch,
    again: bool = False,
    after: Callable[[], None] = lambda: None,
) -> int | None:
    """Run what is not done; the exit code of one that was asked to stop, at which the others are not begun.

    again   what failed is run again, too
    after   called when each has ended
    """
    for number, trial in enumerate(trials, 1):
        code = advance(folder, trial, launch, f"{number} of {len(trials)}", again)
        if code is not None:
            after()
        if code in STOPPED:
            return code
    return None


def advance(folder: SweepFolder, trial: Trial, launch: Launch, which: str, again: bool = False) -> int | None:
    """Run a trial that is not done, the `which` of how many; its exit code, None where nothing was left to do."""
    state = folder.state(trial)
    if state == "done" or (state == "failed" and not again):
        log.info("run      %s: %s already, %s", which, state, trial.name)
        return None
    log.info("run      %s: %s", which, trial.name)
    return run_trial(folder, trial, launch)


def run_trial(folder: SweepFolder, trial: Trial, launch: Launch) -> int:
    """Start a trial, or resume it where its run has saved anything, and note its exit code, which is returned."""
    run = folder.run_of(trial)
    variables = {}
    if run and any(run.checkpoints.rglob("*.ckpt")):
        words = ["--resume", str(run.path), "-t"]
    else:
        place = folder.free_place(trial).absolute()
        words = [*trial.words, "--logdir", str(place.parent), "-t"]
        variables[VARIABLE] = str(place)
        place.parent.mkdir(parents=True, exist_ok=True)
    folder.begin(trial)
    code = launch(words, variables)
    folder.end(trial, code)
    if code:
        log.warning("exit code %d: python main.py %s", code, quoted(*words))
    return code


def launched(words: Sequence[str], variables: Mapping[str, str]) -> int:
    """`main.py` in a process of its own, to its end."""
    main = Path(lun.__file__).parents[1] / "main.py"
    program = [str(main)] if main.is_file() else ["-c", "from lun.cli.entry import train; train()"]
    kept = {name: value for name, value in os.environ.items() if name not in OF_ANOTHER_START}
    # In a group of its own it gets each signal once: from here, and not from the terminal as well.
    child = subprocess.Popen([sys.executable, *program, *words], env={**kept, **variables}, start_new_session=True)
    with _passing_on(child):
        code = child.wait()
    return code if code >= 0 else BY_SIGNAL - code


@contextmanager
def _passing_on(child: subprocess.Popen[bytes]) -> Iterator[None]:
    signals = [getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)]
    before = {number: signal.signal(number, lambda which, frame: child.send_signal(which)) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
