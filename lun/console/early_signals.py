"""Signals before a run can save: they end the program by their exit code, and nothing has to be tidied up."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from ldm.operating_system import STOPPING_SIGNALS
from lun.loop.frames import imports_a_module

INTERRUPTED = 130
TERMINATED = 143
_FREE = (signal.SIG_DFL, signal.default_int_handler)


def end_at_signals() -> dict[int, Any]:
    """Let the signals that a training saves at end the program until it can; returns what they meant before.

    What someone else settled stays, such as nohup's deafness to SIGHUP.
    """
    if threading.current_thread() is not threading.main_thread():
        return {}
    free = [number for number in STOPPING_SIGNALS if signal.getsignal(number) in _FREE]
    return {number: signal.signal(number, _end) for number in free}


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
    code = INTERRUPTED if number == signal.SIGINT else TERMINATED
    if imports_a_module(frame):  # where an exception might be dropped
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError, RuntimeError):
                stream.flush()
        os._exit(code)
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(code)
