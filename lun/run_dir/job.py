"""Who starts this program again by itself, and the run that an earlier start of the same job began."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ldm.operating_system import is_folder_link
from lun.run_dir.directory import RunDirectory

NAME = "LUN_JOB"
"""The variable by which a scheduler that this program does not know names a job, the same in each of its starts."""


@dataclass(frozen=True)
class Job:
    """A job that a person names, one of SLURM, or the processes of one torchrun.

    again  it was started before, and ended without having asked; of a job that a person names nobody knows: it may be
    """

    name: str
    again: bool


def slurm_job(environment: Mapping[str, str]) -> str | None:
    """The id by which `scontrol` knows this job, that of a task of an array included; None outside SLURM."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID") or None


def this_job(environment: Mapping[str, str] = os.environ) -> Job | None:
    """The job that this process belongs to; None where nobody would start it again, or it has no name of its own."""
    if name := environment.get(NAME, "").strip():
        return Job(f"{NAME}={name}", again=True)
    again = any(_count(environment, name) > 0 for name in ("SLURM_RESTART_COUNT", "TORCHELASTIC_RESTART_COUNT"))
    if slurm := slurm_job(environment):
        return Job(f"slurm {slurm}", again)
    if (group := environment.get("TORCHELASTIC_RUN_ID")) is None:
        return None
    if group != "none":  # --rdzv_id, or what --standalone draws
        return Job(f"torchrun {group}", again)
    if environment.get("WORLD_SIZE") != environment.get("LOCAL_WORLD_SIZE"):
        return None
    return Job(f"torchrun {os.getppid()} on {socket.gethostname()}", again)


def begun_by(job: Job, logdir: Path, argv: list[str] | None = None) -> RunDirectory | None:
    """The newest run in `logdir` whose last start was of this job, and by the command line `argv` if one is given."""
    runs = []
    for folder in logdir.iterdir() if logdir.is_dir() else ():
        run = RunDirectory(folder.absolute())
        record = None if is_folder_link(folder) or not folder.is_dir() else run.record()
        if record and record.job == job.name and argv in (None, record.argv):
            runs.append((record.started, folder.name, run))
    return max(runs, key=lambda entry: entry[:2])[2] if runs else None


def _count(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    return int(text) if text.isdecimal() else 0
