"""What a run does when it takes no steps, shown while it goes on: sampling, validating, saving, waiting."""

import threading
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Any

from ldm.operating_system import around_fork
from lun.callbacks.pace import CALLBACK, FETCH, Stopwatch

WAITING = "waiting for data"
SHOWN_AFTER = 1.0  # seconds; what is shorter needs no word
TICK = 0.5

drawing = threading.Lock()
"""Held while a line is drawn, and while a process forks: a worker must not inherit a terminal's lock that is taken."""

around_fork(before=drawing.acquire, after=drawing.release)


class Activity:
    """Reads off Lightning's profiling marks what the main thread is at.

    A callback says what it does by an attribute `doing`, such as "sampling"; one without is called by its class.

    stage   what overrules the marks while it is set, such as "validating 3/20"
    """

    def __init__(self, watch: Stopwatch, callbacks: Iterable[Any], clock: Callable[[], float] = perf_counter) -> None:
        self.watch = watch
        self.stage = ""
        self._since = 0.0
        self._clock = clock
        self._named = {one.state_key: getattr(one, "doing", type(one).__name__) for one in callbacks}

    def begin(self, stage: str) -> None:
        """A stage that the marks do not name begins, or goes on with other words."""
        if not self.stage:
            self._since = self._clock()
        self.stage = stage

    def end(self) -> None:
        self.stage = ""

    def words(self) -> str:
        """`sampling 12 s`; nothing for what is a step, or has only just begun."""
        now = self._clock()
        name, since = (self.stage, self._since) if self.stage else self._marked()
        return f"{name} {now - since:.0f} s" if name and now - since >= SHOWN_AFTER else ""

    def _marked(self) -> tuple[str, float]:
        for action, since in reversed(self.watch.open.copy()):
            if action.endswith(FETCH):
                return WAITING, since
            if action.startswith(CALLBACK):
                return self._named.get(action[len(CALLBACK) :].rpartition(".")[0], ""), since
        return "", 0.0


class Ticker:
    """Calls a function every half second from a thread of its own, until it is stopped."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(TICK):
            self._act()
