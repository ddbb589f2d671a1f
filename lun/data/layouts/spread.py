"""Reading many descriptions with all the cores there are."""

import contextlib
import logging
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

from ldm.cpus import available_cpus
from lun.data.layouts.reader import Read, read_files

log = logging.getLogger(__name__)

WORTH_IT = 20_000
_MOST = 16
_PIECES_EACH = 4
_LARGEST = 1 << 16
_SERVE = "import sys; sys.path = sys.argv[1:]; from lun.data.layouts.reader import serve; serve()"


class _ReaderProcess:
    """A process that reads descriptions. It starts afresh, so it neither loads torch nor shares a lock or a handler;
    in a session of its own, signals for the group pass it by, and it ends when nobody is there to ask it."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", _SERVE, *sys.path]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, start_new_session=True)

    def __call__(self, root: str, files: Sequence[str]) -> Read | None:
        """What `files` say; None if the process ended."""
        requests, answers = self.process.stdin, self.process.stdout
        assert requests and answers
        try:
            pickle.dump((root, files), requests, pickle.HIGHEST_PROTOCOL)
            requests.flush()
            result: Read = pickle.load(answers)
        except (OSError, EOFError, pickle.UnpicklingError):
            return None
        return result

    def end(self) -> None:
        with contextlib.suppress(BrokenPipeError), self.process:
            self.process.kill()


def read_by_many(root: str, files: list[str]) -> list[Read]:
    """What `files` below `root` say, in their order and in parts; by as many processes as there are cores once the
    files are many."""
    workers = min(available_cpus(), _MOST)
    if len(files) < WORTH_IT or workers < 2:
        return [read_files(root, files)]
    log.info("reading  %s descriptions with %d processes", f"{len(files):,}", workers)
    began = time.monotonic()
    size = min(-(-len(files) // (workers * _PIECES_EACH)), _LARGEST)
    pieces = [files[start : start + size] for start in range(0, len(files), size)]
    answers = _answers(root, pieces, workers)
    if None in answers:
        log.warning("a process that read descriptions ended early; what it left is read by this one")
    parts = [answer or read_files(root, piece) for answer, piece in zip(answers, pieces, strict=True)]
    log.info("read     %s descriptions in %.1f s", f"{len(files):,}", time.monotonic() - began)
    return parts


def _answers(root: str, pieces: list[list[str]], workers: int) -> list[Read | None]:
    """What each piece says, None where its process ended; no process outlives this, whatever interrupts it."""
    free: SimpleQueue[_ReaderProcess] = SimpleQueue()

    def ask(piece: list[str]) -> Read | None:
        reader = free.get()
        try:
            return reader(root, piece)
        finally:
            free.put(reader)

    with ThreadPoolExecutor(workers) as threads, contextlib.ExitStack() as started:
        for _ in range(workers):
            reader = _ReaderProcess()
            started.callback(reader.end)
            free.put(reader)
        return list(threads.map(ask, pieces))
