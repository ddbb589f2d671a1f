"""What the whole program does when memory ends, a scheduler calls, or a resume changes settings."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.equality import differences
from support.locks import another_process
from support.runs import load, newest_run

Lun = Callable[..., int]


def at_step(monkeypatch: pytest.MonkeyPatch, step: int, act: Callable[[], None]) -> None:
    """Do something in the middle of a training step."""
    from ldm.models.diffusion.ddpm import LatentDiffusion

    real = LatentDiffusion.training_step

    def training_step(self, batch, batch_idx):
        if self.position.step == step:
            act()
        return real(self, batch, batch_idx)

    monkeypatch.setattr(LatentDiffusion, "training_step", training_step)


def out_of_memory() -> None:
    raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")


def test_running_out_of_memory_is_explained_and_keeps_the_state(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_step(monkeypatch, 2, out_of_memory)
    assert lun("-t") == 5
    run = newest_run(tmp_path / "logs")
    told = capsys.readouterr().err
    assert "error[DEV02]: this machine is out of memory at step 3" in told
    assert (
        "estimate: weights " in told and "data.params.batch_size=1 lightning.trainer.accumulate_grad_batches=2" in told
    )
    assert "Traceback" not in told
    assert json.loads((run / "run.json").read_text())["exit_code"] == 5
    assert (run / "checkpoints/on_exception.ckpt").exists()


def test_sigusr1_saves_and_lets_slurm_start_the_job_again(
    lun: Lun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(
        f"#!/bin/sh\nls {tmp_path}/logs/latest/checkpoints > {tmp_path}/saved\necho $@ > {tmp_path}/asked\n"
    )
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    at_step(monkeypatch, 3, lambda: os.kill(os.getpid(), signal.SIGUSR1))
    assert lun("-t") == 143
    assert (tmp_path / "asked").read_text() == "requeue 77\n"
    assert "last.ckpt" in (tmp_path / "saved").read_text().split()
    assert "requeued job 77" in capsys.readouterr().out


def test_settings_changed_for_a_resume_are_listed(lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert lun("-t", "lightning.trainer.max_steps=1") == 0
    run = newest_run(tmp_path / "logs")
    assert "changed  " not in capsys.readouterr().out
    more = ["lightning.trainer.max_steps=2", "model.base_learning_rate=1.0e-05"]
    assert lun("-r", str(run), "-t", *more, base=False) == 0
    changed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("changed ")]
    assert sorted(changed) == [
        "changed  lightning.trainer.max_steps: 1 -> 2",
        "changed  model.base_learning_rate: 0.001 -> 1e-05",
    ]


def test_a_run_that_another_process_trains_is_left_alone(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert lun("-t", "lightning.trainer.max_steps=2") == 0
    run = newest_run(tmp_path / "logs")
    before = contents(run)
    with another_process(run) as process:
        assert lun("-r", str(run), "-t", "lightning.trainer.max_steps=4", base=False) == 2
    told = capsys.readouterr().err
    assert "error[RES06]" in told and f"process {process.pid}" in told and "--take-over" in told
    assert contents(run) == before


def test_a_branch_from_an_older_file_keeps_what_holds_later_steps(lun: Lun, tmp_path: Path) -> None:
    every = "lightning.callbacks.all={target: lun.callbacks.Checkpoint, params: {filename: 'all/{step}', "
    every += "every_n_train_steps: 2, save_top_k: -1}}"
    assert lun("-t", every, "lightning.trainer.max_steps=5") == 0
    folder = newest_run(tmp_path / "logs") / "checkpoints"
    later = load(folder / "last.ckpt")
    assert lun("-r", str(folder / "all/2.ckpt"), "-t", "lightning.trainer.max_steps=3", base=False) == 0
    kept = folder / "last-step5-attempt1.ckpt"
    assert differences(load(kept), later) == []
    assert load(folder / "last.ckpt")["lun"]["position"]["step"] == 3


def contents(run: Path) -> dict[str, bytes]:
    """Every file of a run but the lock, which the other process has written itself."""
    return {str(file): file.read_bytes() for file in run.rglob("*") if file.is_file() and file.name != ".lock"}
