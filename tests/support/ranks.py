"""A group of processes that train together: started once, then handed one case after another."""

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1]
LINES = 400  # of a rank's log: a native crash leaves the frames of each of its threads
GRACE = 3.0  # seconds that the other ranks get once one has failed


class Ranks:
    """`group(case, *arguments)` calls a function of a test module on all ranks and returns what each of them returned.

    The ranks are one gloo group from the first case on (importing everything costs seconds), launched as torchrun
    would. After a case that failed or hung they are killed and the next case starts new ones. Functions are found by
    file and name, arguments and results are pickled, and what ranks print is shown where they fail.
    """

    def __init__(self, folder: Path, world_size: int = 2, deadline: float = 250.0, **environment: str) -> None:
        self.folder = folder
        self.world_size = world_size
        self.deadline = deadline
        self.environment = environment
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ends: list[Connection] = []

    def __call__(self, case: Callable[..., Any], *arguments: Any) -> list[Any]:
        if not self._processes:
            self.start()
        request = pickle.dumps((case.__code__.co_filename, case.__name__, arguments))
        for end in self._ends:
            end.send_bytes(request)
        answers = self._answers()
        failed = [rank for rank, answer in enumerate(answers) if answer is None or answer[0] is not None]
        if failed:
            told = "\n".join(self._story(rank, answers[rank]) for rank in range(self.world_size))
            self.close()
            raise AssertionError(f"{case.__name__}: rank {' and '.join(map(str, failed))} failed\n{told}")
        return [answer[1] for answer in answers if answer is not None]

    def close(self) -> None:
        """End the ranks, whatever they are doing."""
        for process in self._processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        for end in self._ends:
            end.close()
        self._processes, self._ends = [], []

    def kill(self, rank: int, number: int) -> None:
        """Send a signal to one rank."""
        os.kill(self._processes[rank].pid, number)

    def start(self) -> None:
        """Begin without waiting for it, so that all that has to be imported is while others compute."""
        self.folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        for rank in range(self.world_size):
            ours, theirs = Pipe()
            with open(self._log(rank), "ab") as log:
                process = subprocess.Popen(
                    [sys.executable, str(TESTS / "support" / "rank_worker.py"), str(theirs.fileno())],
                    env=self._environment(rank, port),
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=[theirs.fileno()],
                    cwd=self.folder,
                    start_new_session=True,
                )
            theirs.close()
            self._processes.append(process)
            self._ends.append(ours)

    def _environment(self, rank: int, port: int) -> dict[str, str]:
        path = os.pathsep.join([str(TESTS.parent), str(TESTS)])
        torchrun = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_WORLD_SIZE": str(self.world_size),
            "GROUP_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "TORCHELASTIC_RUN_ID": "test",
        }
        small = {"PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "LUN_THREADS": "1"}
        small["RANKS_DEADLINE"] = str(self.deadline)
        return {**os.environ, **torchrun, **small, **self.environment}

    def _answers(self) -> list[tuple[str | None, Any] | None]:
        """(error or None, result) of each rank; None for one that died or did not answer in time."""
        answers: dict[int, tuple[str | None, Any] | None] = {}
        until = time.monotonic() + self.deadline
        while len(answers) < self.world_size and time.monotonic() < until:
            for rank in set(range(self.world_size)) - answers.keys():
                if self._ends[rank].poll(0.02):
                    answers[rank] = _received(self._ends[rank])
                    if answers[rank] is None or answers[rank][0] is not None:  # type: ignore[index]
                        until = min(until, time.monotonic() + GRACE)
        return [answers.get(rank) for rank in range(self.world_size)]

    def _story(self, rank: int, answer: tuple[str | None, Any] | None) -> str:
        what = "no answer" if answer is None else answer[0] or "done"
        lines = self._log(rank).read_text(errors="replace").splitlines()[-LINES:]
        return "\n".join([f"--- rank {rank}: {what}", *lines])

    def _log(self, rank: int) -> Path:
        return self.folder / f"rank-{rank}.log"


def _received(end: Connection) -> tuple[str | None, Any] | None:
    try:
        answer: tuple[str | None, Any] = pickle.loads(end.recv_bytes())
    except EOFError:
        return None
    return answer


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
