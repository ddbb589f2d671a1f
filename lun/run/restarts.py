"""What a command line means where a scheduler or torchrun gave it again: go on, and not from the beginning."""

import logging
from pathlib import Path

from ldm.errors import Fault
from ldm.shell import quoted
from lun.cli.arguments import Arguments
from lun.run_dir.directory import LATEST, RunDirectory
from lun.run_dir.job import begun_by, this_job

log = logging.getLogger(__name__)


def going_on(arguments: Arguments, words: list[str]) -> Arguments:
    """`arguments`, or those that resume the run which this job began by the same `words`, if that has saved anything.

    A job that is queued again (SLURM, or whatever sets `LUN_JOB`) or a group of ranks that torchrun starts again gets
    the command line that it had at first. `-r` without a name is the run of this job there and not the newest of all,
    which may be another's: raises `Fault` RES01 where this job has saved nothing.
    """
    job = this_job()
    newest = (Path(arguments.logdir) / LATEST).as_posix()
    if job is None or not (job.again and arguments.train) or arguments.resume not in (None, newest):
        return arguments
    run = begun_by(job, Path(arguments.logdir), None if arguments.resume else ["main.py", *words])
    if run is not None and _has_saved(run):
        log.info("again    %s was started again and goes on with its run %s", job.name, run.path)
        if arguments.resume:
            return Arguments(**{**vars(arguments), "resume": str(run.path)})
        kept = {name: getattr(arguments, name) for name in ("train", "debug", "allow", "family", "time_limit")}
        return Arguments(resume=str(run.path), **kept)  # the run keeps all that its configuration came from
    if arguments.resume:
        raise _nothing_of_this_job(job.name, newest)
    if run is None and (other := begun_by(job, Path(arguments.logdir))):
        log.info("note: %s began %s by another command line; this one begins a run of its own", job.name, other.path)
    return arguments


def _has_saved(run: RunDirectory) -> bool:
    return any(not path.name.startswith(".") for path in run.checkpoints.rglob("*.ckpt"))


def _nothing_of_this_job(job: str, newest: str) -> Fault:
    return Fault(
        "RES01",
        f"{job} has no run with a checkpoint",
        where="--resume",
        why=f"{newest} is a run of another job; going on with that is for somebody to ask for by its name",
        fix="begin by the command line without --resume, here as in the first start: a job that is started again goes "
        f"on with its own run by itself\nor: --resume {quoted('logs/RUN')}",
    )
