"""Who would start this program again, by the names that launchers give themselves in the environment."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lun.run_dir.directory import RunDirectory
from lun.run_dir.job import Job, begun_by, this_job
from lun.run_dir.run_json import RunRecord

TORCHRUN = {"TORCHELASTIC_RUN_ID": "none", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
CASES: dict[str, tuple[Mapping[str, str], Job | None]] = {
    "a shell": ({}, None),
    "a job that a person names": ({"LUN_JOB": " a "}, Job("LUN_JOB=a", True)),
    "a name that is none": ({"LUN_JOB": " "}, None),
    "a name of its own within SLURM": ({"LUN_JOB": "a", "SLURM_JOB_ID": "7"}, Job("LUN_JOB=a", True)),
    "a job of SLURM": ({"SLURM_JOB_ID": "7"}, Job("slurm 7", False)),
    "one that was queued again": ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "2"}, Job("slurm 7", True)),
    "a count that is none": ({"SLURM_JOB_ID": "7", "SLURM_RESTART_COUNT": "x"}, Job("slurm 7", False)),
    "a task of an array": (
        {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"},
        Job("slurm 7_2", False),
    ),
    "torchrun with a name": ({**TORCHRUN, "TORCHELASTIC_RUN_ID": "a"}, Job("torchrun a", False)),
    "its ranks, again": (
        {**TORCHRUN, "TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "1"},
        Job("torchrun a", True),
    ),
    "torchrun without one on several machines": ({**TORCHRUN, "WORLD_SIZE": "4"}, None),
    "torchrun within SLURM": (
        {**TORCHRUN, "SLURM_JOB_ID": "7", "TORCHELASTIC_RESTART_COUNT": "1"},
        Job("slurm 7", True),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_launcher_is_known_by_its_environment(name: str) -> None:
    environment, job = CASES[name]
    assert this_job(environment) == job


def test_ranks_of_one_machine_know_each_other_by_the_process_that_started_them() -> None:
    job = this_job(TORCHRUN)
    assert job is not None and f"torchrun {os.getppid()} on " in job.name


def test_the_newest_run_of_a_job_is_that_whose_last_start_was_its_own(tmp_path: Path) -> None:
    job, argv = Job("slurm 7", True), ["main.py", "-t"]
    record = RunRecord(status="stopped", started="2026-01-01T00:00:00", argv=argv, job=job.name)
    for name, written in {
        "a": record,
        "b": replace(record, started="2026-01-02T00:00:00"),
        "c": replace(record, started="2026-01-03T00:00:00", job="slurm 8"),
        "d": replace(record, started="2026-01-04T00:00:00", argv=["main.py", "-t", "--name", "d"]),
    }.items():
        (tmp_path / name).mkdir()
        RunDirectory(tmp_path / name).write_record(written)
    (tmp_path / "latest").symlink_to("c")
    (tmp_path / "slurm.log").touch()
    assert begun_by(job, tmp_path, argv) == RunDirectory(tmp_path / "b")
    assert begun_by(job, tmp_path) == RunDirectory(tmp_path / "d")
    assert begun_by(Job("slurm 9", True), tmp_path) is None
    assert begun_by(job, tmp_path / "nothing") is None
