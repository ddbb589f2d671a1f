"""Asking SLURM to start a job again that was asked to end before its time was up."""

import logging
import os
import subprocess

from lun.run_dir.job import slurm_job

log = logging.getLogger(__name__)


def requeue() -> None:
    """`scontrol requeue` for the job that this is; whatever comes of it is logged and ends nothing."""
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
