"""Our own step of Lightning's loop against Lightning's: the same hooks in the same order, counters and weights."""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.plugins.precision import MixedPrecision

from lun.callbacks import Checkpoint, Divergence
from lun.loop import advance_internals
from lun.loop.advance_internals import CALLBACKS, Advance, is_plain, quicken

OF_MODULE = (
    *CALLBACKS,
    "on_before_batch_transfer",
    "transfer_batch_to_device",
    "on_after_batch_transfer",
    "training_step",
    "backward",
    "optimizer_step",
    "optimizer_zero_grad",
    "configure_gradient_clipping",
    "lr_scheduler_step",
    "on_validation_start",
)


class Told:
    """What was called, as which hook, and where Lightning's counters stood."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def note(self, owner: str, name: str, module: Any, rest: tuple[Any, ...]) -> None:
        loop = module.trainer.fit_loop
        numbers = [one for one in rest if isinstance(one, int)]
        counters = deepcopy(loop.state_dict()["epoch_loop.batch_progress"]), loop.epoch_loop._batches_that_stepped
        counters = *counters, module.trainer.global_step, loop.epoch_loop._results.batch is None
        metrics = {name: float(value) for name, value in module.trainer._logger_connector._callback_metrics.items()}
        self.calls.append((owner, name, module._current_fx_name, numbers, counters, metrics))


def noting(told: Told, base: type, names: tuple[str, ...]) -> type:
    """A class whose hooks are noted before they do what they did."""

    def hook(name: str) -> Any:
        def noted(self: Any, *args: Any, **named: Any) -> Any:
            module = self if hasattr(self, "_current_fx_name") else args[1]
            told.note(base.__name__, name, module, args)
            return getattr(base, name)(self, *args, **named)

        return noted

    return type(base.__name__, (base,), {name: hook(name) for name in names})


class Stop(Callback):
    """Ends training: by asking for it, or as our stops do."""

    def __init__(self, how: str, at: int) -> None:
        self.how, self.at = how, at

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self.how == "raises" and batch_idx == self.at:
            raise StopIteration

    def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
        trainer.should_stop |= self.how == "asks" and args[-1] == self.at


@pytest.fixture
def both(training, tiny_module, monkeypatch, tmp_path):
    """Train by Lightning's step and by ours; gives what was noted, the weights and the last counters of each."""

    def train(*extra: Any, answers: int | None = None, resume: bool = False, **settings: Any) -> list[Any]:
        results = []
        for own in (False, True):
            monkeypatch.setattr(advance_internals, "quicken", quicken if own else lambda trainer: None)
            told = Told()
            module = noting(told, tiny_module, OF_MODULE)()
            if answers is not None:
                monkeypatch.setattr(module, "on_train_batch_start", lambda _, index: -1 if index == answers else None)
            watcher = noting(told, Callback, CALLBACKS)()
            tiny = training(6, watcher, *(make() for make in extra), module=module, **settings)
            advance = tiny.trainer.fit_loop.epoch_loop
            tiny.fit(tmp_path / "checkpoints" / "before.ckpt" if resume else None)
            assert isinstance(vars(advance).get("advance"), Advance) is own
            results.append((told.calls, tiny.module.state_dict(), tiny.trainer.fit_loop.state_dict()))
        return results

    return train


def same(results: list[Any]) -> bool:
    (calls, weights, counters), (own_calls, own_weights, own_counters) = results
    assert own_calls == calls and len(calls) > 20
    assert own_counters == counters
    return all(torch.equal(one, weights[name]) for name, one in own_weights.items())


SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "plain": {},
    "clipped": {"gradient_clip_val": 0.5},
    "windows": {"accumulate": 3, "gradient_clip_val": 0.5},
    "bf16": {"precision": "bf16-mixed"},
    "validation": {"validate_every": 2, "accumulate": 2},
    "ends itself": {"answers": 4, "accumulate": 2},
}


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_hooks_counters_and_weights_are_those_of_lightning(both, settings) -> None:
    assert same(both(Divergence, **settings))


class Logs(Callback):
    """Logs by Lightning's own way in every second micro-batch."""

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        if batch_idx % 2:
            pl_module.log("index", float(batch_idx))


def test_what_a_callback_logs_is_known_at_the_same_moments(both) -> None:
    results = both(Logs, accumulate=2, validate_every=2)
    assert same(results)
    assert results[1][0][-1][-1] != {}


@pytest.mark.parametrize(
    "settings", [{"limit_train_batches": 3, "max_epochs": 2}, {"val_check_interval": "00:00:00:00"}]
)
def test_ends_of_epochs_and_validation_by_the_clock_come_at_the_same_moments(both, settings) -> None:
    assert same(both(validate_every=1, **settings))


@pytest.mark.parametrize("how", ["asks", "raises"])
def test_a_stop_in_the_middle_of_a_window_ends_both_alike(both, how) -> None:
    assert same(both(lambda: Stop(how, 4), accumulate=2, validate_every=2))


def test_a_resume_goes_on_alike(both, training) -> None:
    training(3, Checkpoint("before", every_n_train_steps=2), accumulate=2).fit()
    assert same(both(accumulate=2, resume=True))


def scaled() -> MixedPrecision:
    return MixedPrecision("16-mixed", "cpu", torch.amp.GradScaler("cpu"))


@pytest.mark.parametrize("settings", [{"profiler": "simple"}, {"manual": True}, {"plugins": scaled}], ids=str)
def test_what_is_not_plain_takes_the_step_of_lightning(training, settings) -> None:
    given = {name: [value()] if callable(value) else value for name, value in settings.items()}
    tiny = training(2, **given).fit()
    assert not is_plain(tiny.trainer) and "advance" not in vars(tiny.trainer.fit_loop.epoch_loop)
    assert tiny.module.position.step == 2


def test_a_callback_that_comes_later_is_called_from_then_on(training) -> None:
    told = Told()
    late = noting(told, Callback, CALLBACKS)()

    class Adds(Callback):
        def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
            if batch_idx == 1:
                trainer.callbacks.append(late)

    training(4, Adds()).fit()
    assert [call[1] for call in told.calls].count("on_train_batch_start") == 2


def test_gradients_that_a_model_has_freed_are_not_zeroed_again(training, tiny_module, monkeypatch) -> None:
    class Frees(tiny_module):
        def optimizer_step(self, *args: Any, **named: Any) -> None:
            super().optimizer_step(*args, **named)
            self.net.zero_grad()

    zeroed: list[int] = []
    monkeypatch.setattr(torch.optim.Optimizer, "zero_grad", lambda self, set_to_none=True: zeroed.append(1))
    training(3, module=Frees()).fit()
    assert zeroed == []
    training(3).fit()
    assert zeroed == [1, 1]  # nothing is there to be zeroed before the first step
