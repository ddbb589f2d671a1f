import importlib
import os
import signal
import sys
import threading
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from lightning.pytorch import Callback
from torch.utils.data import DataLoader, Dataset

from lun.callbacks import Checkpoint, FinalCheckpoint, Stops
from lun.checkpoints.atomic import peek


class Signal(Callback):
    """Sends this process a signal in the middle of a step, or of a validation."""

    def __init__(self, number: int, step: int, hook: str = "on_before_zero_grad", times: int = 1) -> None:
        def send(trainer, pl_module, *_):
            if pl_module.position.step == step and not trainer.sanity_checking:
                for _ in range(times):
                    os.kill(os.getpid(), number)

        setattr(self, hook, send)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGUSR1, 143)])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_a_signal_finishes_the_step_saves_and_stops(training, tmp_path, number, code, accumulate):
    stops = Stops()
    tiny = training(9, Signal(number, 2), stops, FinalCheckpoint(), accumulate=accumulate).fit()
    assert stops.exit_code == code
    assert tiny.module.position.step == 3
    assert peek(tmp_path / "checkpoints/last.ckpt")["lun"]["position"]["step"] == 3


def test_savers_before_it_act_at_the_step_of_the_stop(training, tmp_path):
    training(9, Signal(signal.SIGTERM, 2), Checkpoint("every-3", every_n_train_steps=3), Stops()).fit()
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["every-3.ckpt", "every-3.ckpt.json"]


def test_a_stop_adds_and_loses_no_validation_and_no_step(training, tmp_path):
    straight = training(8, validate_every=2).fit().module
    first = training(8, Signal(signal.SIGINT, 2), Stops(), FinalCheckpoint(), validate_every=2).fit().module
    assert first.validated == [2]
    second = training(8, Stops(), FinalCheckpoint(), validate_every=2).fit(tmp_path / "checkpoints/last.ckpt").module
    assert first.validated + second.validated == straight.validated == [2, 4, 6, 8]
    assert first.seen + second.seen == straight.seen
    assert torch.equal(second.net.weight, straight.net.weight)


def test_a_signal_during_a_validation_lets_it_finish(training):
    stops = Stops()
    hook = "on_validation_batch_start"
    tiny = training(8, Signal(signal.SIGINT, 2, hook, times=1), stops, validate_every=2, limit_val_batches=1).fit()
    assert tiny.module.validated == [2]
    assert tiny.module.position.step == 2


def test_a_second_ctrl_c_quits_without_saving(training, tmp_path):
    stops = Stops()
    with pytest.raises(SystemExit):
        training(9, Signal(signal.SIGINT, 2, times=2), stops, FinalCheckpoint()).fit()
    stops.give_back()
    assert stops.exit_code == 130
    assert not (tmp_path / "checkpoints").exists()


def test_a_second_ctrl_c_bounds_the_end_of_the_fit_and_not_of_the_process_that_ran_it(training, monkeypatch):
    monkeypatch.setattr("lun.callbacks.stops.END_SECONDS", 1e4)
    stops = Stops()
    before = set(threading.enumerate())
    with pytest.raises(SystemExit):
        training(9, Signal(signal.SIGINT, 2, times=2), stops).fit()
    (timer,) = [thread for thread in set(threading.enumerate()) - before if isinstance(thread, threading.Timer)]
    stops.give_back()
    timer.join()
    assert not timer.is_alive()


def test_the_first_ctrl_c_is_answered_at_once_and_only_once(training, caplog):
    caplog.set_level("INFO")
    training(9, Signal(signal.SIGINT, 2), Stops(), FinalCheckpoint(), accumulate=3).fit()
    assert caplog.text.count("stopping after this step, saving last.ckpt") == 1


def test_the_time_limit_stops_like_sigterm(training, monkeypatch):
    clock = iter(range(0, 10**6, 10))
    monkeypatch.setattr("lun.callbacks.stops.time.monotonic", lambda: next(clock))
    stops = Stops(time_limit=45)
    tiny = training(99, stops).fit()
    assert stops.exit_code == 143
    assert 0 < tiny.module.position.step < 10


def test_a_signal_in_the_last_step_does_not_undo_that_the_run_is_done(training):
    stops = Stops()
    tiny = training(3, Signal(signal.SIGTERM, 2), stops).fit()
    assert (tiny.module.position.step, stops.exit_code) == (3, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_the_handlers_from_before_come_back(training, fails):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    tiny = training(2, Stops())
    if fails:
        tiny.module.training_step = lambda batch, batch_idx: 1 / 0
    with pytest.raises(ZeroDivisionError) if fails else nullcontext():
        tiny.fit()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == before


def test_outside_the_main_thread_no_handler_is_touched(training):
    tiny = training(2, Stops())
    thread = threading.Thread(target=tiny.fit)
    thread.start()
    thread.join()
    assert tiny.module.position.step == 2


@pytest.mark.parametrize(("number", "asked"), [(signal.SIGUSR1, True), (signal.SIGTERM, False), (signal.SIGINT, False)])
def test_only_sigusr1_asks_for_the_job_to_be_started_again(training, number, asked):
    stops = Stops()
    training(9, Signal(number, 2), stops, FinalCheckpoint()).fit()
    assert stops.asked_back is asked


class Stuck(Dataset):
    """Examples of another dataset, but the first `reads` are all that ever come; then it sends `number`, if any."""

    def __init__(self, others: Dataset, reads: int, number: int | None) -> None:
        self.others = others
        self.left = reads
        self.number = number

    def __len__(self) -> int:
        return len(self.others)

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.left == 0:
            if self.number is not None:
                os.kill(os.getpid(), self.number)
            nobody_writes, _ = os.pipe()
            os.read(nobody_writes, 1)
        self.left -= 1
        return self.others[index]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("lun.callbacks.stops.WAIT_SECONDS", 0.0)
    monkeypatch.setattr("lun.loop.reminder.PAUSE", 0.01)


def stuck(loader: DataLoader, reads: int, number: int | None = signal.SIGTERM) -> DataLoader:
    return DataLoader(Stuck(loader.dataset, reads, number), batch_sampler=loader.batch_sampler)


@pytest.mark.parametrize(("reads", "number", "code"), [(12, signal.SIGTERM, 143), (15, signal.SIGINT, 130)])
def test_a_batch_that_never_comes_does_not_keep_a_stop_from_saving(
    training, tmp_path, impatient, reads, number, code
) -> None:
    """Between two steps, and within one: that one is left out, and a resume begins with it."""
    stops, path = Stops(), tmp_path / "checkpoints/last.ckpt"
    tiny = training(4, stops, FinalCheckpoint(), accumulate=3)
    tiny.data.train_dataloader = partial(stuck, tiny.data.train_dataloader(), reads, number)
    with pytest.raises(SystemExit) as left:
        tiny.fit()
    assert (left.value.code, stops.exit_code, stops.gave_up) == (code, code, True)
    assert peek(path)["lun"]["position"]["step"] == 2
    straight = training(4, accumulate=3).fit().module
    resumed = training(4, Stops(), accumulate=3, attempt=2).fit(path).module
    assert torch.equal(resumed.net.weight, straight.net.weight)


def test_a_validation_that_never_reads_its_batch_does_not_keep_a_stop_from_saving(training, tmp_path, impatient):
    tiny = training(4, Stops(), FinalCheckpoint(), validate_every=2, num_sanity_val_steps=0)
    tiny.data.val_dataloader = partial(stuck, tiny.data.val_dataloader(), 0)
    with pytest.raises(SystemExit):
        tiny.fit()
    assert peek(tmp_path / "checkpoints/last.ckpt")["lun"]["position"]["step"] == 2


def test_the_time_limit_is_over_also_where_a_batch_never_comes(training, tmp_path, impatient, monkeypatch):
    stops = Stops(time_limit=0.001)
    tiny = training(4, stops, FinalCheckpoint())
    tiny.data.train_dataloader = partial(stuck, tiny.data.train_dataloader(), 4, None)
    monkeypatch.setattr("lun.callbacks.stops.time.monotonic", lambda: 0.0)
    with pytest.raises(SystemExit):
        tiny.fit()
    assert stops.exit_code == 143
    assert peek(tmp_path / "checkpoints/last.ckpt")["lun"]["position"]["step"] == 2


def test_a_stop_that_waits_interrupts_nothing_but_a_wait_for_a_batch(training, impatient):
    """A step longer than the patience is finished; then it may be the loop or the reminder that ends the run."""

    class Slow(Callback):
        def on_before_zero_grad(self, *_: object) -> None:
            if tiny.module.position.step == 2:
                os.kill(os.getpid(), signal.SIGTERM)
                assert not threading.Event().wait(0.05)

    stops = Stops()
    tiny = training(9, Slow(), stops)
    tiny.fit()
    assert (tiny.module.position.step, stops.exit_code) == (3, 143)


DEAF = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGTERM)
    for _ in range(1000):
        pass
except BaseException:
    pass  # as native code does that a library begins with, where it does not abort
"""


class Imports(Callback):
    """Imports, before the first step, a module that drops exceptions; then goes on, or does something for ever."""

    def __init__(self, for_ever: bool) -> None:
        self.for_ever = for_ever

    def on_sanity_check_end(self, *_: object) -> None:
        importlib.import_module("deaf_library")
        if self.for_ever:
            threading.Event().wait()


@pytest.mark.parametrize("for_ever", [False, True])
def test_a_stop_before_training_is_not_lost_in_the_import_of_a_library(
    training, tmp_path, impatient, monkeypatch, for_ever
) -> None:
    (tmp_path / "deaf_library.py").write_text(DEAF)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "deaf_library", raising=False)
    stops = Stops()
    with pytest.raises(SystemExit) as left:
        training(3, Imports(for_ever), stops, FinalCheckpoint(), validate_every=1).fit()
    stops.give_back()
    assert (left.value.code, stops.exit_code, stops.gave_up) == (143, 143, False)
    assert not (tmp_path / "checkpoints").exists()
