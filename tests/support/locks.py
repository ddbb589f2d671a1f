"""A process beside this one that holds the lock of a run directory."""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lun.run_dir.lock import NAME, RunLock

FORKS = multiprocessing.get_context("fork")


def hold(run: Path, pipe: Any, name: str = NAME) -> None:
    """A process that holds the lock until it is told to end, or is sent SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a fork has the handlers of whoever ran before in this process
    RunLock(run, name).take()
    pipe.send(os.getpid())
    pipe.recv()


@contextmanager
def another_process(run: Path, name: str = NAME) -> Iterator[Any]:
    ours, theirs = FORKS.Pipe()
    process = FORKS.Process(target=hold, args=(run, theirs, name), daemon=True)
    process.start()
    ours.recv()
    try:
        yield process
    finally:
        process.kill()
        process.join()
