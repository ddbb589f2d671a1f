"""What a run is at, between steps."""

import threading
from types import SimpleNamespace

import pytest
from lightning.pytorch import Callback
from lightning.pytorch.profilers import PassThroughProfiler

import lun.callbacks
from lun.callbacks import pace
from lun.callbacks.activity import Activity, Ticker
from lun.callbacks.pace import stopwatch
from lun.loop.boundary import AtStepBoundary


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(pace, "perf_counter", lambda: clock.now)
    return clock


@pytest.fixture
def profiler():
    return PassThroughProfiler()


class Theirs(Callback):
    pass


def activity(profiler, clock, *callbacks):
    watch = stopwatch(SimpleNamespace(profiler=profiler))
    return Activity(watch, callbacks, lambda: clock.now)


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("[_TrainingEpochLoop].train_dataloader_next", "waiting for data 5 s"),
        ("[Callback]Theirs.on_train_batch_start", "Theirs 5 s"),
        ("run_training_batch", ""),
    ],
)
def test_the_innermost_mark_says_it(profiler, clock, action, words):
    now = activity(profiler, clock, Theirs())
    profiler.start(action)
    clock.now = 5.0
    assert now.words() == words
    profiler.stop(action)
    assert now.words() == ""


def test_what_is_short_is_not_told(profiler, clock):
    now = activity(profiler, clock, Theirs())
    profiler.start("[Callback]Theirs.on_train_batch_start")
    clock.now = 0.9
    assert now.words() == ""


def test_an_action_that_ended_within_another_leaves_the_outer_one(profiler, clock):
    now = activity(profiler, clock, Theirs())
    profiler.start("[Callback]Theirs.on_train_end")
    profiler.start("[Strategy]X.save_checkpoint")
    clock.now = 3.0
    profiler.stop("[Strategy]X.save_checkpoint")
    profiler.stop("nobody saw it begin")
    assert now.words() == "Theirs 3 s"


def test_a_stage_is_told_from_its_beginning(profiler, clock):
    now = activity(profiler, clock)
    for done in range(4):
        now.begin(f"validating {done}/20")
        clock.now += 2.0
    assert now.words() == "validating 3/20 8 s"
    now.end()
    assert now.words() == ""


def test_every_callback_of_ours_that_acts_between_steps_says_what_it_does():
    ours = {getattr(lun.callbacks, name) for name in lun.callbacks.__all__}
    acting = [one for one in ours if isinstance(one, type) and issubclass(one, AtStepBoundary)]
    acting.remove(AtStepBoundary)
    assert len(acting) >= 4
    assert [one.__name__ for one in acting if not getattr(one, "doing", "")] == []


def test_a_ticker_acts_until_it_is_stopped(monkeypatch):
    monkeypatch.setattr("lun.callbacks.activity.TICK", 0.001)
    acted = threading.Event()
    ticker = Ticker(acted.set)
    assert acted.wait(10.0)
    ticker.stop()
    assert not ticker._thread.is_alive()
