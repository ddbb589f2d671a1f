import os

import pytest
from lightning.pytorch import Callback

from ldm.errors import Fault
from lun.callbacks import Checkpoint, FinalCheckpoint
from lun.checkpoints.atomic import AtomicIO, peek


class FailAt(Callback):
    """Raises an error at one of the hooks once a step is reached."""

    def __init__(self, hook: str, step: int, error: BaseException | None = None) -> None:
        def fail(trainer, pl_module, *_):
            if pl_module.position.step == step:
                raise error or ValueError("the user's error")

        setattr(self, hook, fail)


def names(tmp_path) -> list[str]:
    folder = tmp_path / "checkpoints"
    return sorted(name for name in os.listdir(folder) if name.endswith(".ckpt")) if folder.exists() else []


def test_the_end_of_a_run_is_saved_though_no_period_was_reached(training, tmp_path):
    training(3, Checkpoint("every", every_n_train_steps=100), FinalCheckpoint()).fit()
    assert names(tmp_path) == ["last.ckpt"]
    assert peek(tmp_path / "checkpoints/last.ckpt")["global_step"] == 3


def test_a_resume_that_does_nothing_rewrites_nothing(training, tmp_path):
    training(3, FinalCheckpoint()).fit()
    path = tmp_path / "checkpoints/last.ckpt"
    before = path.stat().st_ino
    training(3, FinalCheckpoint(), attempt=2).fit(path)
    assert path.stat().st_ino == before


@pytest.mark.parametrize("hook", ["on_train_batch_start", "on_before_zero_grad", "on_validation_start"])
def test_an_error_between_two_steps_keeps_the_state_and_is_raised(training, tmp_path, hook):
    with pytest.raises(ValueError, match="the user's error"):
        training(5, FailAt(hook, 2), FinalCheckpoint(), validate_every=1).fit()
    assert names(tmp_path) == ["on_exception.ckpt"]
    assert peek(tmp_path / "checkpoints/on_exception.ckpt")["lun"]["position"]["step"] == 2


def test_an_error_in_half_an_optimizer_step_is_not_kept(training, tmp_path):
    with pytest.raises(ValueError, match="the user's error"):
        training(5, FailAt("on_before_optimizer_step", 2), FinalCheckpoint()).fit()
    assert names(tmp_path) == []


def test_the_state_that_an_error_left_behind_can_be_resumed_to_the_same_end(training, tmp_path):
    straight = training(5, accumulate=2).fit().module
    with pytest.raises(ValueError, match="the user's error"):
        training(5, FailAt("on_before_zero_grad", 3), FinalCheckpoint(), accumulate=2).fit()
    resumed = training(5, accumulate=2).fit(tmp_path / "checkpoints/on_exception.ckpt").module
    assert (resumed.net.weight == straight.net.weight).all()


def test_an_error_before_the_first_step_saves_nothing(training, tmp_path):
    with pytest.raises(ValueError, match="the user's error"):
        training(5, FailAt("on_train_batch_start", 0), FinalCheckpoint()).fit()
    assert names(tmp_path) == []


def test_a_keyboard_interrupt_is_not_trusted(training, tmp_path):
    with pytest.raises(SystemExit):
        training(5, FailAt("on_train_batch_start", 2, KeyboardInterrupt()), FinalCheckpoint()).fit()
    assert names(tmp_path) == []


def spoil(module, step: int) -> None:
    completed = module.window_completed

    def spoiling(examples):
        completed(examples)
        if module.position.step == step:
            module.net.bias.data.fill_(float("inf"))

    module.window_completed = spoiling


def test_weights_that_are_not_finite_do_not_replace_the_last_ones(training, tmp_path):
    training(2, FinalCheckpoint()).fit()
    tiny = training(3, FinalCheckpoint())
    spoil(tiny.module, 3)
    with pytest.raises(Fault, match="TRN01"):
        tiny.fit(tmp_path / "checkpoints/last.ckpt")
    assert names(tmp_path) == ["last.ckpt"]
    assert peek(tmp_path / "checkpoints/last.ckpt")["global_step"] == 2


def test_weights_that_are_not_finite_are_not_kept_at_an_error(training, tmp_path):
    tiny = training(3, FailAt("on_train_batch_start", 2), FinalCheckpoint())
    spoil(tiny.module, 2)
    with pytest.raises(ValueError, match="the user's error"):
        tiny.fit()
    assert names(tmp_path) == []


def test_a_full_disk_at_the_end_is_waited_for(training, tmp_path, monkeypatch):
    tries, slept = [], []
    real = AtomicIO.save_checkpoint

    def save(self, *arguments, **more):
        tries.append(1)
        if len(tries) < 3:
            raise OSError(28, "No space left on device")
        real(self, *arguments, **more)

    monkeypatch.setattr(AtomicIO, "save_checkpoint", save)
    monkeypatch.setattr("lun.callbacks.final.time.sleep", slept.append)
    training(1, FinalCheckpoint(wait_seconds=50, pause_seconds=10)).fit()
    assert slept == [10, 10]
    assert names(tmp_path) == ["last.ckpt"]


def test_a_disk_that_stays_full_is_a_fault(training, monkeypatch):
    def save(self, *arguments, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(AtomicIO, "save_checkpoint", save)
    with pytest.raises(Fault, match="DSK01.*could not save checkpoints/last.ckpt: No space left on device"):
        training(1, FinalCheckpoint(wait_seconds=0)).fit()


def test_an_error_in_saving_never_hides_the_error_that_ended_the_run(training, monkeypatch, caplog):
    def save(self, *arguments, **more):
        raise TypeError("another bug")

    monkeypatch.setattr(AtomicIO, "save_checkpoint", save)
    with pytest.raises(ValueError, match="the user's error"):
        training(3, FailAt("on_train_batch_start", 2), FinalCheckpoint()).fit()
    assert "on_exception.ckpt could not be saved" in caplog.text


def test_one_rank_of_several_does_not_save_at_an_error(training, tmp_path, monkeypatch, caplog):
    tiny = training(3, FailAt("on_train_batch_start", 2), FinalCheckpoint())
    monkeypatch.setattr(type(tiny.trainer), "world_size", property(lambda self: 2))
    monkeypatch.setattr(tiny.trainer.fit_loop.epoch_loop, "_broadcast_sigterm_tensor", lambda: None)
    with pytest.raises(ValueError, match="the user's error"):
        tiny.fit()
    assert names(tmp_path) == []
    assert "not all ranks could take part" in caplog.text
