import errno
import logging
import os
from pathlib import Path

import pytest
import torch

from ldm.errors import Fault
from lun.callbacks import Checkpoint
from lun.checkpoints.atomic import AtomicIO, peek

BEST = "monitor/gs={step:02d}"


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root / "checkpoints").as_posix() for path in root.rglob("*.ckpt"))


def scored(module, scores: dict[int, float]):
    """Make a module's validations report `scores` by step instead of its loss."""
    module.validation_step = lambda batch, batch_idx: module.log("val/loss", scores.get(module.position.step, 9.0))
    return module


def failing_save(monkeypatch, steps: set[int], error: Exception) -> None:
    real = AtomicIO.save_checkpoint

    def save(self, checkpoint, path, storage_options=None):
        if checkpoint["global_step"] in steps:
            raise error
        real(self, checkpoint, path, storage_options)

    monkeypatch.setattr(AtomicIO, "save_checkpoint", save)


def test_every_so_many_steps_all_are_kept(training, tmp_path):
    training(5, Checkpoint("periodic/e={epoch:04d} gs={step:06d}", every_n_train_steps=2, save_top_k=-1)).fit()
    assert files(tmp_path) == ["periodic/e=0000 gs=000002.ckpt", "periodic/e=0000 gs=000004.ckpt"]


def test_a_fixed_name_is_overwritten_in_place(training, tmp_path):
    training(5, Checkpoint("every-2k-steps", every_n_train_steps=2)).fit()
    assert files(tmp_path) == ["every-2k-steps.ckpt"]
    assert peek(tmp_path / "checkpoints/every-2k-steps.ckpt")["global_step"] == 4


def test_only_the_newest_stay_when_so_many_are_asked_for(training, tmp_path):
    training(5, Checkpoint("gs={step}", every_n_train_steps=1, save_top_k=2)).fit()
    assert files(tmp_path) == ["gs=4.ckpt", "gs=5.ckpt"]
    assert len(list((tmp_path / "checkpoints").glob("*.json"))) == 2


def test_minutes_count_from_the_last_save(training, tmp_path, monkeypatch):
    clock = iter(range(0, 10**6, 20))
    monkeypatch.setattr("lun.callbacks.checkpointing.time.monotonic", lambda: next(clock))
    training(6, Checkpoint("gs={step}", every_minutes=1.0, save_top_k=-1)).fit()
    assert files(tmp_path) == ["gs=3.ckpt", "gs=6.ckpt"]


def test_the_best_by_a_metric_are_kept_over_a_resume(training, tiny_module, tmp_path):
    scores = {1: 0.5, 2: 0.2, 3: 0.4, 4: 0.3, 5: 0.1, 6: 0.6}

    def savers():
        return Checkpoint("every", every_n_train_steps=1), Checkpoint(BEST, monitor="val/loss", save_top_k=2)

    training(3, *savers(), validate_every=1, module=scored(tiny_module(), scores)).fit()
    assert files(tmp_path) == ["every.ckpt", "monitor/gs=02.ckpt", "monitor/gs=03.ckpt"]
    resumed = training(6, *savers(), validate_every=1, attempt=2, module=scored(tiny_module(), scores))
    resumed.fit(tmp_path / "checkpoints/every.ckpt")
    assert files(tmp_path) == ["every.ckpt", "monitor/gs=02.ckpt", "monitor/gs=05.ckpt"]


def test_scores_of_an_abandoned_branch_neither_count_nor_are_deleted(training, tiny_module, tmp_path):
    def savers():
        return (
            Checkpoint("periodic/{step}", every_n_train_steps=1, save_top_k=-1),
            Checkpoint(BEST, monitor="val/loss", save_top_k=1),
        )

    first = scored(tiny_module(), {1: 0.5, 2: 0.4, 3: 0.1})
    training(3, *savers(), validate_every=1, module=first).fit()
    second = training(4, *savers(), validate_every=1, attempt=2, module=scored(tiny_module(), {3: 0.3, 4: 0.2}))
    second.fit(tmp_path / "checkpoints/periodic/2.ckpt")
    best = [name for name in files(tmp_path) if name.startswith("monitor")]
    assert best == ["monitor/gs=03.ckpt", "monitor/gs=04.ckpt"]
    assert peek(tmp_path / "checkpoints/monitor/gs=03.ckpt")["lun"]["attempt"] == 1
    assert "periodic/3-attempt2.ckpt" in files(tmp_path)


def test_other_arguments_on_a_resume_find_the_same_files(training, tiny_module, tmp_path):
    every = Checkpoint("every-{step}", every_n_train_steps=1)
    training(2, every).fit()
    training(4, Checkpoint("every-{step}", every_n_train_steps=2), attempt=2).fit(tmp_path / "checkpoints/every-2.ckpt")
    assert files(tmp_path) == ["every-4.ckpt"]


def test_the_files_of_a_run_and_their_lists_agree(training, tiny_module, tmp_path):
    best = Checkpoint(BEST, monitor="val/loss", save_top_k=2)
    training(3, best, validate_every=1, module=scored(tiny_module(), {1: 0.3, 2: 0.2, 3: 0.1})).fit()
    state = peek(tmp_path / "checkpoints/monitor/gs=03.ckpt")["callbacks"][best.state_key]
    assert [row[0] for row in state["saved"]] == ["checkpoints/monitor/gs=03.ckpt", "checkpoints/monitor/gs=02.ckpt"]


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), RuntimeError("unexpected pos 64")])
def test_a_save_that_fails_keeps_the_old_file_and_the_run_goes_on(training, tmp_path, monkeypatch, caplog, error):
    failing_save(monkeypatch, {2, 3}, error)
    kept_at_3 = []

    class Looking(Checkpoint):
        def at_step(self, trainer, pl_module, step, final):
            super().at_step(trainer, pl_module, step, final)
            if step == 3:
                kept_at_3.append(peek(tmp_path / "checkpoints/every.ckpt")["global_step"])

    saver = Looking("every", every_n_train_steps=1)
    training(4, saver).fit()
    assert kept_at_3 == [1]
    assert peek(tmp_path / "checkpoints/every.ckpt")["global_step"] == 4
    assert saver.failed == 2
    assert caplog.text.count("warning[DSK01]: could not save checkpoints/every.ckpt") == 2


def test_a_failed_best_is_not_on_the_list_and_deletes_nothing(training, tiny_module, tmp_path, monkeypatch):
    failing_save(monkeypatch, {2}, OSError("disk gone"))
    saver = Checkpoint(BEST, monitor="val/loss")
    training(2, saver, validate_every=1, module=scored(tiny_module(), {1: 0.2, 2: 0.1})).fit()
    assert files(tmp_path) == ["monitor/gs=01.ckpt"]
    assert [entry.step for entry in saver.saved] == [1]


def test_an_error_in_gathering_the_state_is_not_taken_for_a_full_disk(training, monkeypatch):
    tiny = training(2, Checkpoint("every", every_n_train_steps=1))
    tiny.module.on_save_checkpoint = lambda checkpoint: (_ for _ in ()).throw(RuntimeError("a bug"))
    with pytest.raises(RuntimeError, match="a bug"):
        tiny.fit()


def test_weights_that_are_not_finite_are_never_saved_over_good_ones(training, tmp_path):
    tiny = training(4, Checkpoint("every", every_n_train_steps=1))
    spoil_at(tiny.module, 3)
    with pytest.raises(Fault, match="TRN01") as caught:
        tiny.fit()
    assert "checkpoints/every.ckpt (finite) is kept" in caught.value.why
    kept = torch.load(tmp_path / "checkpoints/every.ckpt", weights_only=True)
    assert kept["global_step"] == 2
    assert kept["state_dict"]["net.weight"].isfinite().all()


def spoil_at(module, step: int) -> None:
    completed = module.window_completed

    def spoiling(examples):
        completed(examples)
        if module.position.step == step:
            module.net.weight.data[0, 1] = float("nan")

    module.window_completed = spoiling


def test_a_metric_that_is_never_logged_is_a_fault_before_the_first_step(training):
    tiny = training(2, Checkpoint(BEST, monitor="val/loss_ema"), validate_every=1)
    with pytest.raises(Fault, match="TRN02") as caught:
        tiny.fit()
    assert tiny.module.seen == []
    assert "only these exist: val/loss" in caught.value.what
    assert "no EMA" in caught.value.why
    assert caught.value.fix == "model.params.monitor=val/loss"


def test_without_a_sanity_check_a_missing_metric_is_one_warning(training, tmp_path, caplog):
    saver = Checkpoint(BEST, monitor="val/loss_ema")
    training(3, saver, validate_every=1, num_sanity_val_steps=0).fit()
    assert caplog.text.count("TRN02") == 1
    assert files(tmp_path) == []


def test_without_validation_the_monitored_saver_is_off_with_a_note(training, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    training(3, Checkpoint(BEST, monitor="val/loss")).fit()
    assert caplog.text.count("nothing is validated") == 1
    assert files(tmp_path) == []


def test_the_sanity_check_saves_nothing(training, tmp_path):
    training(1, Checkpoint(BEST, monitor="val/loss"), validate_every=5).fit()
    assert files(tmp_path) == []


def test_a_score_that_is_nan_is_not_among_the_best(training, tiny_module, tmp_path):
    module = scored(tiny_module(), {1: float("nan"), 2: 0.5})
    training(2, Checkpoint(BEST, monitor="val/loss", save_top_k=2), validate_every=1, module=module).fit()
    assert files(tmp_path) == ["monitor/gs=02.ckpt"]


def test_two_savers_may_act_at_the_same_step(training, tmp_path):
    savers = [Checkpoint(name, every_n_train_steps=2) for name in ("a", "b")]
    training(2, *savers).fit()
    assert files(tmp_path) == ["a.ckpt", "b.ckpt"]


@pytest.mark.parametrize("arguments", [{}, {"monitor": "val/loss", "every_n_train_steps": 5}])
def test_a_saver_without_one_clear_occasion_is_refused(arguments):
    with pytest.raises(Fault, match="CFG08"):
        Checkpoint("x", **arguments)
