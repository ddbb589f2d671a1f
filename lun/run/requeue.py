"""Asking SLURM to start a job again that was told to end before its time was up."""

import logging
import os
import subprocess
from collections.abc import Mapping

log = logging.getLogger(__name__)


def slurm_job(environment: Mapping[str, str]) -> str | None:
    """The id by which `scontrol` knows this job, that of a task of an array included; None outside SLURM."""
    array, task = environment.get("SLURM_ARRAY_JOB_ID"), environment.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else environment.get("SLURM_JOB_ID") or None


def requeue() -> None:
    """`scontrol requeue` for the job that this is; whatever comes of it is told and ends nothing."""
    job = slurm_job(os.environ)
    if job is None:
        return
    try:
        done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("the job could not be requeued: %s", error)
        return
    if done.returncode:
        log.warning("scontrol requeue %s failed: %s", job, done.stderr.strip() or f"exit code {done.returncode}")
    else:
        log.info("requeued job %s", job)
