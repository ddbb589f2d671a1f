"""A run whose numbers stop being finite: how it ends, and how it goes on with other settings."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import load, newest_run

from lun.run_dir.directory import RunDirectory
from lun.run_dir.run_json import RunRecord

Lun = Callable[..., int]
EVERY_3 = "{target: lun.callbacks.Checkpoint, params: {filename: every-3, every_n_train_steps: 3}}"
SAVER = f"lightning.callbacks.periodic_checkpoint_overwrite={EVERY_3}"


def spoil_from(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Make the objective's loss NaN from a step on."""
    from ldm.models.diffusion.ddpm import LatentDiffusion

    real = LatentDiffusion.training_step

    def training_step(self, batch, batch_idx):
        loss = real(self, batch, batch_idx)
        return loss * float("nan") if self.position.step >= step else loss

    monkeypatch.setattr(LatentDiffusion, "training_step", training_step)


def test_it_stops_with_exit_code_6_and_goes_on_from_the_last_file_before(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as spoilt:
        spoil_from(spoilt, 5)
        assert lun("-t", SAVER) == 6
    run = newest_run(tmp_path / "logs")
    told = capsys.readouterr().err
    assert "error[TRN01]: loss became NaN at step 6; stopped before the weights were changed" in told
    assert "steps 1 to 5: loss " in told and "pictures: " in told and ".png" in told
    assert f"then --resume {run}/checkpoints/" in told
    assert load(run / "checkpoints/on_exception.ckpt")["lun"]["diverged"] is True

    assert lun("-r", str(run), "-t", "model.base_learning_rate=1.0e-05", base=False) == 0
    out = capsys.readouterr().out
    assert "resumed" in out and "every-3.ckpt at step 3" in out
    last = load(run / "checkpoints/last.ckpt")
    assert last["lun"]["position"]["step"] == 12
    assert last["optimizer_states"][0]["param_groups"][0]["initial_lr"] == 1e-5


def test_where_nothing_was_saved_before_the_file_to_go_on_from_has_to_be_named(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with monkeypatch.context() as spoilt:
        spoil_from(spoilt, 5)
        assert lun("-t") == 6
    run = newest_run(tmp_path / "logs")
    kept = run / "checkpoints/on_exception.ckpt"
    assert lun("-r", str(run), "-t", base=False) == 2
    told = capsys.readouterr().err
    assert "error[RES01]: no whole checkpoint" in told and f"--resume {kept} model.base_learning_rate=" in told

    assert lun("-r", str(kept), "-t", "model.base_learning_rate=1.0e-05", base=False) == 0
    last = load(run / "checkpoints/last.ckpt")["lun"]
    assert last["position"]["step"] == 12 and "diverged" not in last


def test_a_disk_that_takes_no_note_of_the_end_hides_no_error(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = RunDirectory.write_record

    def full(self: RunDirectory, record: RunRecord) -> None:
        if record.status != "running":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, record)

    monkeypatch.setattr(RunDirectory, "write_record", full)
    with monkeypatch.context() as spoilt:
        spoil_from(spoilt, 2)
        assert lun("-t") == 6
    told = capsys.readouterr()
    assert "error[TRN01]: loss became NaN at step 3" in told.err and "DSK01" not in told.err
    assert "run.json still says that the run goes on: No space left on device" in told.out + told.err

    assert lun("-t", "lightning.trainer.max_steps=2") == 0
    assert (newest_run(tmp_path / "logs") / "checkpoints/last.ckpt").exists()


def test_settings_changed_for_a_resume_take_effect(lun: Lun, tmp_path: Path) -> None:
    horizon = "model.params.scheduler_config.params.total_steps=12"
    optimizer = "model.params.optimizer_config={target: torch.optim.AdamW, params: {weight_decay: %s}}"
    assert lun("-t", horizon, optimizer % 0.01, "lightning.trainer.max_steps=4") == 0
    run = newest_run(tmp_path / "logs")
    changed = ["model.base_learning_rate=5.0e-04", optimizer % 0.2, "lightning.trainer.max_steps=6"]
    assert lun("-r", str(run), "-t", *changed, base=False) == 0
    state = load(run / "checkpoints/last.ckpt")
    group = state["optimizer_states"][0]["param_groups"][0]
    assert (group["weight_decay"], group["initial_lr"]) == (0.2, 5e-4)
    assert state["lr_schedulers"][0]["base_lrs"][0] == 5e-4
    assert group["lr"] == pytest.approx(5e-4 * 0.6545, rel=0.01)  # cosine at 6 of 12 steps, 2 of them warm-up


def test_another_optimizer_cannot_take_over_the_state(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("-t", "lightning.trainer.max_steps=2") == 0
    run = newest_run(tmp_path / "logs")
    sgd = "model.params.optimizer_config={target: torch.optim.SGD, params: {momentum: 0.9}}"
    assert lun("-r", str(run), "-t", sgd, "lightning.trainer.max_steps=4", base=False) == 2
    told = capsys.readouterr().err
    assert "error[RES05]" in told and "torch.optim.adamw.AdamW -> torch.optim.sgd.SGD" in told
    assert load(run / "checkpoints/last.ckpt")["lun"]["position"]["step"] == 2
