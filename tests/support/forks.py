"""The program in processes of its own that start at once: forks of one that has imported everything."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

WARM = "support.warm"
SMALL = {"OMP_NUM_THREADS": "1", "LUN_THREADS": "1", "HF_HUB_OFFLINE": "1"}
PATIENCE = 240.0
"""Seconds after which something that was waited for is taken to hang."""


class Forks:
    """Starts the program in forks of one warm process, which begins with the first of them and ends with this one.

    environment   added to that of the program
    """

    def __init__(self, root: Path, environment: Mapping[str, str]) -> None:
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload([WARM])
        self.environment = {**SMALL, **environment}
        self.path = os.pathsep.join([str(root), str(root / "tests")])

    @contextmanager
    def start(
        self, words: Sequence[str], folder: Path, before: Callable[..., None] | None = None, *told: Any
    ) -> Iterator["Program"]:
        """The program with a command line, in `folder`; whatever is left of it at the end is killed.

        before   is called in the new process before the program, with what is `told`
        """
        output = folder / "output.txt"
        arguments = (list(words), str(folder), str(output), self.environment, before, told)
        process = self.context.Process(target=_program, args=arguments)
        began = output.stat().st_size if output.exists() else 0
        path = os.pathsep.join([self.path, os.environ.get("PYTHONPATH", "")])
        with patch.dict(os.environ, PYTHONPATH=path):  # for the warm process, which begins now or was begun with it
            process.start()
        program = Program(process, output, began)
        try:
            yield program
        finally:
            program.end()


@contextmanager
def spawned(line: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator["Program"]:
    """A program as a shell starts it, with nothing imported before; whatever is left of it at the end is killed."""
    output = folder / "output.txt"
    with output.open("ab") as file:
        began, around = file.tell(), {**os.environ, **SMALL, **environment}
        process = subprocess.Popen(line, cwd=folder, stdout=file, stderr=file, env=around, start_new_session=True)
    program = Program(Spawned(process), output, began)
    try:
        yield program
    finally:
        program.end()


class Spawned:
    """A process of `subprocess` with the names of one of `multiprocessing`."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        self.pid = process.pid

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def join(self, timeout: float | None = None) -> None:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)


class Program:
    """One running program, leader of a session that its workers belong to. `began`: where its `output` begins."""

    def __init__(self, process: Any, output: Path, began: int) -> None:
        self.process = process
        self.output = output
        self._began = began

    @property
    def pid(self) -> int:
        return int(self.process.pid)

    @property
    def running(self) -> bool:
        return bool(self.process.exitcode is None)

    def said(self) -> str:
        """What it has printed so far."""
        if not self.output.exists():
            return ""
        return self.output.read_bytes()[self._began :].decode(errors="replace")

    def listens(self) -> bool:
        """Whether it catches SIGTERM by now, which it does from its first import on."""
        with suppress(FileNotFoundError, ProcessLookupError):
            status = Path(f"/proc/{self.pid}/status").read_text()
            return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (signal.SIGTERM - 1) & 1)
        return False

    def send(self, number: signal.Signals, group: bool = False) -> None:
        (os.killpg if group else os.kill)(self.pid, number)

    def until(self, condition: Callable[[], bool]) -> bool:
        """Wait for a condition; false if the program ended before."""
        limit = time.monotonic() + PATIENCE
        while not condition():
            if not self.running:
                return condition()
            assert time.monotonic() < limit, f"waited in vain; it said:\n{self.said()}"
            time.sleep(0.004)  # more often would take the time from the program that is waited for
        return True

    def code(self) -> int:
        """Wait for its end: the exit code, or the negative number of the signal that ended it."""
        self.process.join(PATIENCE)
        assert not self.running, f"it does not end; it said:\n{self.said()}"
        return int(self.process.exitcode)

    def members(self) -> list[int]:
        """Processes of its session that are alive."""
        return [pid for pid in _processes() if _session_of(pid) == self.pid]

    def orphans(self, patience: float = 5.0) -> list[int]:
        """What is still alive of its session, after the moment that the system takes to end workers."""
        limit = time.monotonic() + patience
        while (left := self.members()) and time.monotonic() < limit:
            time.sleep(0.01)
        return left

    def end(self) -> None:
        for pid in self.members():
            os.kill(pid, signal.SIGKILL)
        self.process.join()


def _program(
    words: list[str],
    folder: str,
    output: str,
    environment: Mapping[str, str],
    before: Callable[..., None] | None,
    told: tuple[Any, ...],
) -> None:
    assert WARM in sys.modules, "what was to be imported beforehand cannot be imported"
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)  # a person's workers do not come from our warm process
    written = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(written, 1)
    os.dup2(written, 2)
    os.chdir(folder)
    os.environ.update(environment)
    sys.argv = ["main.py", *words]
    from lun.cli.entry import enter

    if before is not None:
        before(*told)
    enter("lun.trainer")


def _processes() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdecimal()]


def _session_of(pid: int) -> int | None:
    """The session of a living process; None for one that is gone or only waits to be collected."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, _, _, session = text.rpartition(")")[2].split()[:4]
    return None if state in ("Z", "X") else int(session)
