"""A second thread that calls the main one out of what it does, where nothing else would end that."""

import math
import sys
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType

from ldm.operating_system import can_interrupt_waits, interrupt_thread

PAUSE = 1.0
"""Seconds between two looks at what the main thread does."""


class Reminder:
    """Sends the main thread a signal once a time is over and it may be interrupted; again, as long as it may.

    Nothing but a signal ends a wait within the system, such as opening a pipe that nobody writes into or reading from
    a disk of the network that is gone.

    number      the signal; its handler finds `calls` true, and may raise to leave the wait
    may_leave   whether the frame in which the main thread stands may be left; asked in the second thread
    """

    def __init__(self, number: int, may_leave: Callable[[FrameType | None], bool]) -> None:
        self.number = number
        self.may_leave = may_leave
        self.calls = False
        self._due = math.inf
        self._over = threading.Event()
        self._sending = threading.Lock()

    def start(self) -> None:
        if can_interrupt_waits():
            threading.Thread(target=self._remind, name="reminder of a stop", daemon=True).start()

    def due_in(self, seconds: float) -> None:
        """From then on, or an earlier time that was said before. For signal handlers: waits for no lock."""
        self._due = min(self._due, monotonic() + seconds)

    def cancel(self) -> None:
        """No signal is sent any more."""
        with self._sending:
            self._over.set()

    def _remind(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self._over.wait(PAUSE):
            with self._sending:
                due = monotonic() >= self._due and not self._over.is_set()
                if due and self.may_leave(sys._current_frames().get(main)):
                    self.calls = True
                    interrupt_thread(main, self.number)
