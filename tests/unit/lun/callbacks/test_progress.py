"""The line of a running training."""

import io
import logging
from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch.profilers import PassThroughProfiler
from torch.utils._python_dispatch import TorchDispatchMode

from ldm.lightning_classes import as_lightning
from lun.callbacks import progress
from lun.callbacks.progress import Smooth, SmoothedProgressBar, validation_loss


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
        callbacks=[],
        num_val_batches=[20],
        is_global_zero=True,
    )


@pytest.fixture
def module():
    position = SimpleNamespace(step=0, images=0)
    return SimpleNamespace(position=position, device=torch.device("cpu"), automatic_optimization=True, monitor=None)


def start(trainer, module, **settings):
    bar = as_lightning(SmoothedProgressBar(**settings))
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


def test_a_scalar_is_left_alone_until_the_average_is_read():
    class Counts(TorchDispatchMode):
        operations = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.operations += 1
            return func(*args, **(kwargs or {}))

    now, later = Smooth(0.9), Smooth(0.9)
    losses = [torch.tensor(value) for value in (1.0, 2.0, 4.0)]
    with Counts() as counts:
        for loss in losses:
            later.add_later(loss)
    assert counts.operations == 0
    for loss in losses:
        now.add(float(loss))
    assert later.value == now.value == later.value


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
    assert len(plain_lines(caplog)) == 1 and plain_lines(caplog)[0].startswith("step 150/900  loss 0.500")
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


def terminal(monkeypatch):
    """Not a fixture: the test runner puts its own output back between those and the test."""
    screen = Terminal()
    monkeypatch.setattr(progress.sys, "stdout", screen)
    monkeypatch.setattr(progress, "Ticker", lambda act: SimpleNamespace(stop=lambda: None))
    monkeypatch.setattr(progress, "_columns", lambda: 80)
    return screen


def last_line(screen):
    return screen.getvalue().split("\r")[-1].rstrip()


def test_on_a_terminal_the_bar_counts_optimizer_steps_of_the_whole_run(trainer, module, clock, monkeypatch, caplog):
    screen = terminal(monkeypatch)
    caplog.set_level(logging.INFO, "lun")
    module.position.step = 200  # resumed
    bar = start(trainer, module)
    assert "  200/900" in last_line(screen)
    for clock.now in range(1, 19):
        run(bar, trainer, module, 1)
    assert "24%  218/900  loss 0.500" in last_line(screen)
    assert plain_lines(caplog) == []
    bar.teardown(trainer, module, "fit")
    assert last_line(screen) == ""


def test_what_takes_long_is_named_with_its_seconds_and_then_no_longer(trainer, module, clock, monkeypatch):
    screen = terminal(monkeypatch)
    monkeypatch.setattr("lun.callbacks.activity.perf_counter", lambda: clock.now)
    monkeypatch.setattr("lun.callbacks.pace.perf_counter", lambda: clock.now)
    trainer.callbacks = [SimpleNamespace(state_key="ImageLogger", doing="sampling")]
    bar = start(trainer, module)
    bar._activity._clock = lambda: clock.now
    trainer.profiler.start("[Callback]ImageLogger.on_train_batch_start")
    bar._tick()
    assert "sampling" not in last_line(screen)
    clock.now = 12.0
    bar._tick()
    assert "0/900  sampling 12 s" in last_line(screen)
    trainer.profiler.stop("[Callback]ImageLogger.on_train_batch_start")
    bar._tick()
    assert last_line(screen).endswith("0/900")


def test_a_validation_tells_how_far_it_is(trainer, module, clock, monkeypatch):
    screen = terminal(monkeypatch)
    bar = start(trainer, module)
    bar._activity._clock = lambda: clock.now
    bar.on_validation_start(trainer, module)
    bar.on_validation_batch_end(trainer, module, None, None, 2)
    clock.now = 4.0
    bar._tick()
    assert "validating 3/20 4 s" in last_line(screen)
    bar.on_validation_end(trainer, module)
    bar._tick()
    assert "validating" not in last_line(screen)
