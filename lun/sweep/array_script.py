"""The script by which SLURM does the runs of a sweep side by side, each as a task of an array."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ldm.shell import quoted

SCRIPT = """#!/usr/bin/env bash
# A run of the sweep in each task of an array; written by `{name} --slurm`.
#   sbatch {script}
# Options of your cluster (--partition, --account, --time) go behind sbatch, or here. Ten minutes before the limit the
# run saves and the task is queued again; a task that is started again goes on with its run.
#SBATCH --job-name=lun-sweep
#SBATCH --array=1-{count}
#SBATCH --ntasks=1
#SBATCH --gpus=1
#SBATCH --cpus-per-task=8
#SBATCH --time=24:00:00
#SBATCH --signal=USR1@600
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output={folder}/slurm-%a.log
set -euo pipefail
cd {here}
exec srun {python} -m lun.sweep {words} --index "$SLURM_ARRAY_TASK_ID"
"""


def array_script(script: Path, words: Sequence[str], count: int, name: str) -> str:
    """The text of `script`: `words` are those of the sweep, with `-o`, without `--slurm`."""
    return SCRIPT.format(
        name=name,
        script=quoted(script),
        count=count,
        folder=script.parent.absolute(),
        here=quoted(Path.cwd()),
        python=quoted(sys.executable),
        words=quoted(*words),
    )
