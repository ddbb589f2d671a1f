"""A main thread that waits for what never comes is called out of its wait."""

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest
from torch.utils.data import DataLoader, Dataset

from lun.loop import reminder as module
from lun.loop.frames import awaits_a_batch
from lun.loop.reminder import Reminder


class Called(Exception):
    pass


class Reads(Dataset[int]):
    """One example, read by a function."""

    def __init__(self, read: Callable[[], int]) -> None:
        self.read = read

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        return self.read()


@pytest.fixture
def nobody_writes() -> Iterator[int]:
    """The end of a pipe from which nothing is ever read."""
    reading, writing = os.pipe()
    yield reading
    os.close(reading)
    os.close(writing)


@pytest.fixture
def reminder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reminder]:
    """One that looks every hundredth of a second, and whose signal leaves a wait."""
    monkeypatch.setattr(module, "PAUSE", 0.01)
    made = Reminder(signal.SIGUSR2, awaits_a_batch)

    def answer(*_: object) -> None:
        assert made.calls
        raise Called

    before = signal.signal(signal.SIGUSR2, answer)
    yield made
    made.cancel()
    signal.signal(signal.SIGUSR2, before)


def test_a_read_that_never_ends_is_left_once_the_time_is_over(reminder: Reminder, nobody_writes: int) -> None:
    reminder.due_in(60)
    reminder.due_in(0)
    reminder.start()
    with pytest.raises(Called):
        next(iter(DataLoader(Reads(lambda: len(os.read(nobody_writes, 1))))))


def test_before_its_time_and_after_its_end_nobody_is_called(
    reminder: Reminder, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[bool] = []
    enough = threading.Event()

    class Clock:
        def __call__(self) -> float:
            looks.append(True)
            if len(looks) > 3:
                enough.set()
            return 0.0

    monkeypatch.setattr(module, "monotonic", Clock())
    reminder.due_in(60)
    reminder.start()
    next(iter(DataLoader(Reads(lambda: int(enough.wait())))))
    reminder.cancel()
    reminder.due_in(-60)
    assert not reminder.calls
