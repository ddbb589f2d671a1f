"""Errors that are another rank's: what a rank says that could have gone on."""

from pathlib import Path

from torch import distributed

from ldm.errors import Fault
from ldm.lightning_classes import Trainer
from ldm.shell import quoted

ANOTHER_RANK = "TRN03"
_LOST = ("Connection closed by peer", "Connection reset by peer", "Timed out waiting", "Broken pipe", "pair closure")


def another_rank_failed(trainer: Trainer) -> Fault:
    """TRN03, with the newest whole file."""
    return rank_failure(Path(trainer.default_root_dir), trainer.global_rank)


def rank_failure(run: Path, rank: int) -> Fault:
    """TRN03 on `rank` of the run in the directory `run`."""
    saved = last_saved(run)
    kept = saved.relative_to(run).as_posix() if saved else None
    return Fault(
        ANOTHER_RANK,
        f"another rank failed or is gone, so that rank {rank} cannot go on",
        why=f"what happened is in that rank's log; the last checkpoint is {kept or 'none: nothing was saved before'}",
        where=f"{run}/console*.log",
        fix=f"once that is mended: --resume {quoted(run / kept)}" if kept else "start the run again",
    )


def last_saved(run: Path) -> Path | None:
    """The checkpoint of a run that was written last; each is whole, since they are moved to their places."""
    files = [path for path in (run / "checkpoints").rglob("*.ckpt") if not path.name.startswith(".")]
    return max(files, key=lambda path: path.stat().st_mtime, default=None)


def is_from_another_rank(error: BaseException) -> bool:
    """Whether an error says no more than that another rank failed, or went away amid a collective."""
    if isinstance(error, Fault):
        return error.id == ANOTHER_RANK
    backend = isinstance(error, distributed.DistBackendError)
    return backend or (isinstance(error, RuntimeError) and any(sign in str(error) for sign in _LOST))
