"""Signals before a run can save: they end the program by their exit code, and nothing has to be tidied up."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

TERMINATED = 143
NAMES = ("SIGTERM", "SIGUSR1", "SIGHUP")


def end_at_signals() -> dict[int, signal.Handlers]:
    """Let the signals that a training saves at end the program until it can; returns what they meant before.

    What someone else settled stays, such as nohup's deafness to SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    numbers = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]
    free = [number for number in numbers if signal.getsignal(number) == signal.SIG_DFL]
    for number in free:
        signal.signal(number, _end)
    return dict.fromkeys(free, signal.SIG_DFL)


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """`end_at_signals` for a while, for programs that run a command in their own process."""
    former = end_at_signals()
    try:
        yield
    finally:
        for number, handler in former.items():
            if signal.getsignal(number) == _end:
                signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(TERMINATED)
