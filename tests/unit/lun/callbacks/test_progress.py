"""The line of a running training."""

import io
import logging
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.profilers import PassThroughProfiler

from lun.callbacks import progress
from lun.callbacks.progress import Smooth, SmoothedProgressBar, duration, progress_line, summary, validation_loss


@pytest.fixture
def clock(monkeypatch):
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def trainer():
    return SimpleNamespace(
        profiler=PassThroughProfiler(),
        max_steps=900,
        accumulate_grad_batches=2,
        sanity_checking=False,
        state=SimpleNamespace(fn="fit"),
        callback_metrics={},
        is_global_zero=True,
    )


@pytest.fixture
def module():
    position = SimpleNamespace(step=0, images=0)
    return SimpleNamespace(position=position, device=torch.device("cpu"), automatic_optimization=True, monitor=None)


def start(trainer, module, **settings):
    bar = SmoothedProgressBar(**settings)
    bar.setup(trainer, module, "fit")
    bar.on_train_start(trainer, module)
    bar.on_train_epoch_start(trainer, module)
    return bar


def run(bar, trainer, module, steps, loss=0.5):
    for _ in range(steps):
        for micro in range(2):
            module.position.step += micro
            module.position.images += 16 * micro
            bar.on_train_batch_end(trainer, module, {"loss": torch.tensor(loss) / 2}, None, micro)


def plain_lines(caplog):
    return [r.message for r in caplog.records if r.message.startswith("step ")]


def test_the_line_reads_as_promised():
    line = progress_line(218, 900, 0.1832, 1 / 7.6, 32.0, 0.012)
    assert line == "218/900  loss 0.183 (smooth)  7.6 it/s  243 img/s  wait 1%  eta 1:30"


def test_slow_steps_are_told_in_seconds_and_a_gpu_tells_its_memory():
    line = progress_line(3, None, None, 2.5, 4.0, None, "18.3/24.0 GiB")
    assert line == "3  2.5 s/it  1.6 img/s  mem 18.3/24.0 GiB"


def test_the_line_that_stays_leaves_out_what_is_not_known():
    assert summary(225, 0.171, 0.204) == "step   225  loss 0.171  val 0.204"
    assert summary(0, None, None) == "step     0"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (89.4, "1:29"), (7389, "2:03:09"), (3 * 86400 + 14400, "3 d 4:00:00")]
)
def test_durations_are_written_as_a_clock_shows_them(seconds, text):
    assert duration(seconds) == text


def test_an_average_is_right_from_the_first_value_on():
    smooth = Smooth(0.98)
    assert smooth.value is None
    smooth.add(3.0)
    assert smooth.value == pytest.approx(3.0)


def test_adding_a_value_many_times_at_once_is_adding_it_many_times():
    once, often = Smooth(0.9), Smooth(0.9)
    for smooth in (once, often):
        smooth.add(1.0)
    once.add(2.0, times=5)
    for _ in range(5):
        often.add(2.0)
    assert once.value == pytest.approx(often.value)


def test_the_loss_is_that_of_whole_windows(trainer, module):
    bar = start(trainer, module, smoothing=0.5)
    run(bar, trainer, module, 3, loss=0.8)
    assert bar.loss.value == pytest.approx(0.8)


def test_losses_are_not_read_from_the_device_between_lines(trainer, module, clock, monkeypatch):
    bar = start(trainer, module)
    monkeypatch.setattr(torch.Tensor, "__float__", lambda self: 1 / 0)
    monkeypatch.setattr(torch.Tensor, "item", lambda self: 1 / 0)
    run(bar, trainer, module, 50)


def test_without_a_terminal_a_line_comes_when_both_100_steps_and_30_seconds_are_over(trainer, module, clock, caplog):
    caplog.set_level(logging.INFO, "lun")
    bar = start(trainer, module)
    run(bar, trainer, module, 150)
    assert plain_lines(caplog) == []
    clock.now = 31.0
    run(bar, trainer, module, 1)
    assert len(plain_lines(caplog)) == 1 and plain_lines(caplog)[0].startswith("step 150/900  loss 0.500 (smooth)")
    clock.now = 90.0
    run(bar, trainer, module, 98)
    assert len(plain_lines(caplog)) == 1


def test_the_last_step_is_always_told(trainer, module, clock, caplog):
    caplog.set_level(logging.INFO, "lun")
    bar = start(trainer, module)
    run(bar, trainer, module, 7)
    bar.on_train_end(trainer, module)
    assert [line[:10] for line in plain_lines(caplog)] == ["step 7/900"]


def test_a_refresh_rate_of_zero_shows_nothing(trainer, module, clock, caplog):
    caplog.set_level(logging.INFO, "lun")
    bar = start(trainer, module, refresh_rate=0)
    clock.now = 1000.0
    run(bar, trainer, module, 200)
    bar.on_train_end(trainer, module)
    assert plain_lines(caplog) == []


def test_a_validation_leaves_one_line_but_a_sanity_check_leaves_none(trainer, module, caplog):
    caplog.set_level(logging.INFO, "lun")
    bar = start(trainer, module)
    run(bar, trainer, module, 225)
    trainer.callback_metrics = {"val/loss_simple_ema": torch.tensor(0.204)}
    for trainer.sanity_checking in (True, False):
        bar.val_progress_bar = bar.train_progress_bar
        bar.on_validation_end(trainer, module)
    assert [line for line in plain_lines(caplog) if "val" in line] == ["step   225  loss 0.500  val 0.204"]


def test_the_monitored_metric_is_shown_before_the_usual_ones(trainer, module):
    trainer.callback_metrics = {"val/loss_simple": torch.tensor(1.0), "val/mine": torch.tensor(2.0)}
    assert validation_loss(trainer, module) == 1.0
    module.monitor = "val/mine"
    assert validation_loss(trainer, module) == 2.0
    trainer.callback_metrics = {}
    assert validation_loss(trainer, module) is None


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_the_bar_counts_optimizer_steps_of_the_whole_run(trainer, module, clock, monkeypatch, caplog):
    caplog.set_level(logging.INFO, "lun")
    screen = Terminal()
    monkeypatch.setattr(progress.sys, "stdout", screen)
    module.position.step = 200  # resumed
    bar = start(trainer, module)
    for clock.now in range(1, 19):
        run(bar, trainer, module, 1)
    assert (bar.train_progress_bar.n, bar.train_progress_bar.total) == (218, 900)
    last = screen.getvalue().split("\r")[-1]
    assert "[#########...............................]  24%  218/900  loss 0.500 (smooth)" in last
    assert plain_lines(caplog) == []
    bar.on_train_end(trainer, module)
