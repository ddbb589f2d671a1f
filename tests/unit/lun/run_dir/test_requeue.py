import logging

import pytest

from lun.run_dir.job import slurm_job
from lun.run_dir.requeue import requeue


@pytest.fixture
def scontrol(tmp_path, monkeypatch, caplog):
    """A `scontrol` on the PATH that notes what it was asked and ends with a code."""
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def install(code: int) -> None:
        program = tmp_path / "scontrol"
        program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "slurm says no" >&2\nexit {code}\n')
        program.chmod(0o755)

    return install


@pytest.fixture(autouse=True)
def _no_job(monkeypatch):
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)


def test_a_job_is_requeued_by_its_id(scontrol, tmp_path, monkeypatch, caplog):
    scontrol(0)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    requeue()
    assert (tmp_path / "asked").read_text() == "requeue 4711\n"
    assert "requeued job 4711" in caplog.text


def test_outside_slurm_nothing_is_asked(scontrol, tmp_path):
    scontrol(0)
    requeue()
    assert not (tmp_path / "asked").exists()


def test_a_task_of_an_array_has_a_name_of_its_own():
    environment = {"SLURM_JOB_ID": "12", "SLURM_ARRAY_JOB_ID": "10", "SLURM_ARRAY_TASK_ID": "2"}
    assert slurm_job(environment) == "10_2"
    assert slurm_job({}) is None


def test_a_refusal_is_told(scontrol, monkeypatch, caplog):
    scontrol(1)
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    requeue()
    assert "scontrol requeue 4711 failed: slurm says no" in caplog.text


def test_a_missing_scontrol_is_told(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    requeue()
    assert "the job could not be requeued" in caplog.text
