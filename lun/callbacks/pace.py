"""How fast training goes, and which share of its time it waits for data.

The time of training is the wall clock without validation and without what callbacks do between two steps (samples,
saves). The share of waiting is the part of it that Lightning spends inside `next(dataloader)`: with enough workers a
batch lies ready and this is close to nothing. Both are read off Lightning's own profiling marks, so the order of
callbacks does not matter. Tried with Lightning 2.6.6.
"""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

FETCH = "train_dataloader_next"
CALLBACK = "[Callback]"
BETWEEN = ".on_train_batch_start"


class Stopwatch:
    """Seconds that a profiler's marks say were spent fetching batches, and in callbacks between two steps.

    start, stop  of the profiler that it is put around; None where that does nothing
    open         actions that have begun and not ended, the outermost first, each with the time at which it began
    """

    def __init__(self, start: Callable[[str], None] | None, stop: Callable[[str], None] | None) -> None:
        self.fetching = 0.0
        self.between = 0.0
        self._start, self._stop = start, stop
        self.open: list[tuple[str, float]] = []
        self._kinds: dict[str, str] = {}

    def start(self, action_name: str) -> None:
        self.open.append((action_name, perf_counter()))
        if self._start is not None:
            self._start(action_name)

    def stop(self, action_name: str) -> None:
        if self._stop is not None:
            self._stop(action_name)
        if self.open and self.open[-1][0] == action_name:
            seconds = perf_counter() - self.open.pop()[1]
        else:
            seconds = self._ended(action_name)
        if action_name not in self._kinds:
            self._kinds[action_name] = _kind_of(action_name)
        kind = self._kinds[action_name]
        if kind == FETCH:
            self.fetching += seconds
        elif kind == BETWEEN:
            self.between += seconds

    def _ended(self, action_name: str) -> float:
        """Seconds since this action began; those within it end with it, and one that nobody saw begin took none."""
        places = [place for place, (name, _) in enumerate(self.open) if name == action_name]
        if not places:
            return 0.0
        since = self.open[places[-1]][1]
        del self.open[places[-1] :]
        return perf_counter() - since


def _kind_of(action_name: str) -> str:
    """Which of both a mark is of, by its name, or "" for another: found once, since there are dozens a step."""
    if action_name.endswith(FETCH):
        return FETCH
    return BETWEEN if action_name.startswith(CALLBACK) and action_name.endswith(BETWEEN) else ""


def stopwatch(trainer: Any) -> Stopwatch:
    """The one stopwatch of a trainer, put around its profiler when it is first asked for."""
    profiler = trainer.profiler
    owner = getattr(profiler.start, "__self__", None)
    if isinstance(owner, Stopwatch):
        return owner
    from lightning.pytorch.profilers import PassThroughProfiler as Nothing  # as a training has by now

    marks, idle = (profiler.start, profiler.stop), (Nothing.start, Nothing.stop)
    watch = Stopwatch(*(None if getattr(mark, "__func__", None) in idle else mark for mark in marks))
    profiler.start, profiler.stop = watch.start, watch.stop
    return watch


@dataclass(frozen=True)
class Reading:
    """What happened between two readings; `seconds` of training, of which `waited` for data."""

    steps: int
    images: int
    seconds: float
    waited: float

    @property
    def step_ms(self) -> float:
        return 1000 * self.seconds / max(self.steps, 1)

    @property
    def images_per_s(self) -> float:
        return self.images / max(self.seconds, 1e-9)

    @property
    def wait(self) -> float:
        """The share of training time spent waiting for data, 0 to 1."""
        return min(1.0, self.waited / max(self.seconds, 1e-9))


class Pace:
    """Readings of a run's speed, each since the one before; `position` counts steps and images."""

    def __init__(self, watch: Stopwatch, position: Any, clock: Callable[[], float] = perf_counter) -> None:
        self._watch, self._position, self._clock = watch, position, clock
        self._validated = 0.0
        self._paused_at: float | None = None
        self._mark = self._now()

    def pause(self) -> None:
        """Validation begins: its time does not count."""
        self._paused_at = self._clock()

    def resume(self) -> None:
        if self._paused_at is not None:
            self._validated += self._clock() - self._paused_at
            self._paused_at = None

    def read(self) -> Reading:
        before, self._mark = self._mark, self._now()
        steps, images, seconds, waited = (now - then for now, then in zip(self._mark, before, strict=True))
        return Reading(int(steps), int(images), seconds, waited)

    def _now(self) -> tuple[float, float, float, float]:
        excluded = self._watch.between + self._validated
        if self._paused_at is not None:
            excluded += self._clock() - self._paused_at
        return self._position.step, self._position.images, self._clock() - excluded, self._watch.fetching
