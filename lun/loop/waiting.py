"""Waits for a batch that may never come: how they are known, and how the main thread is called out of them."""

import math
import signal
import sys
import threading
from time import monotonic
from types import FrameType

from torch.utils.data import dataloader

PAUSE = 1.0
"""Seconds between two looks at what the main thread does."""


def awaits_a_batch(frame: FrameType | None) -> bool:
    """Whether what runs in `frame` was called by a loader of torch, which reads or waits for who does."""
    while frame is not None:
        if frame.f_globals.get("__name__") == dataloader.__name__:
            return True
        frame = frame.f_back
    return False


class Reminder:
    """Sends the main thread a signal once a time is over and it waits for a batch; again, as long as it waits.

    Nothing but a signal ends a wait within the system, such as opening a pipe that nobody writes into or reading from
    a disk of the network that is gone. What else the main thread does is not interrupted.

    number   the signal; its handler finds `calls` true, and may raise to leave the wait
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.calls = False
        self._due = math.inf
        self._over = threading.Event()
        self._sending = threading.Lock()

    def start(self) -> None:
        if hasattr(signal, "pthread_kill"):  # not on Windows, where nothing interrupts a wait
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
                if due and awaits_a_batch(sys._current_frames().get(main)):
                    self.calls = True
                    signal.pthread_kill(main, self.number)
