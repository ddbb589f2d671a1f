"""What counts as training time, and what as waiting."""

from types import SimpleNamespace

import pytest
from lightning.pytorch.profilers import PassThroughProfiler

from lun.callbacks import pace
from lun.callbacks.pace import Pace, Reading, stopwatch


class Clock:
    """Time that passes only when told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(pace, "perf_counter", clock)
    return clock


@pytest.fixture
def trainer():
    return SimpleNamespace(profiler=PassThroughProfiler())


def spend(trainer, clock, action, seconds):
    trainer.profiler.start(action)
    clock.now += seconds
    trainer.profiler.stop(action)


FETCH = "[_TrainingEpochLoop].train_dataloader_next"


def test_time_in_the_loader_is_waiting_and_time_between_steps_does_not_count(trainer, clock):
    position = SimpleNamespace(step=0, images=0)
    measured = Pace(stopwatch(trainer), position, clock)
    spend(trainer, clock, FETCH, 1.0)
    spend(trainer, clock, "[Callback]ImageLogger.on_train_batch_start", 50.0)
    spend(trainer, clock, "run_training_batch", 3.0)
    position.step, position.images = 2, 64
    reading = measured.read()
    assert (reading.steps, reading.images, reading.seconds, reading.waited) == (2, 64, 4.0, 1.0)
    assert (reading.wait, reading.step_ms, reading.images_per_s) == (0.25, 2000.0, 16.0)


def test_validation_does_not_count(trainer, clock):
    measured = Pace(stopwatch(trainer), SimpleNamespace(step=0, images=0), clock)
    clock.now += 1
    measured.pause()
    clock.now += 100
    measured.resume()
    clock.now += 1
    assert measured.read().seconds == 2.0


def test_each_reading_starts_where_the_last_one_ended(trainer, clock):
    position = SimpleNamespace(step=0, images=0)
    measured = Pace(stopwatch(trainer), position, clock)
    clock.now, position.step = 5.0, 5
    measured.read()
    clock.now, position.step = 6.0, 6
    assert measured.read() == Reading(steps=1, images=0, seconds=1.0, waited=0.0)


def test_a_trainer_has_one_stopwatch_and_its_profiler_still_hears_every_mark(trainer):
    heard = []
    trainer.profiler.start = heard.append
    assert stopwatch(trainer) is stopwatch(trainer)
    trainer.profiler.start("anything")
    assert heard == ["anything"]


def test_a_reading_without_steps_divides_by_nothing():
    empty = Reading(0, 0, 0.0, 0.0)
    assert (empty.step_ms, empty.images_per_s, empty.wait) == (0, 0, 0)
