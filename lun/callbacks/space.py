"""Whether the disk has room for what a run is going to save, asked before its first step."""

import logging
import math
import shutil
from collections.abc import Iterable
from pathlib import Path

from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from lun.callbacks.checkpointing import Checkpoint
from lun.checkpoints.atomic import AtomicIO
from lun.checkpoints.checkpoint_files import size_on_disk
from lun.checkpoints.memory_estimate import amount, memory_estimate
from lun.checkpoints.saving import as_shards, run_directory
from lun.loop.contract import step_of

log = logging.getLogger(__name__)

FEWER = "--logdir on a larger disk, or keep fewer: lightning.callbacks.periodic_checkpoint.params.save_top_k=2"


class DiskSpace(Callback):
    """Says how much the checkpoints of a run take; a disk on which not even one fits is `Fault` DSK01.

    The size of a checkpoint is that of weights, EMA and optimizer; it also becomes what `AtomicIO` asks to be free
    before each save, until a file was written.
    """

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        with as_shards(trainer):  # sizes are the same, and nothing has to be gathered for them
            size = memory_estimate(pl_module, trainer.optimizers).checkpoint
        if isinstance(trainer.strategy.checkpoint_io, AtomicIO):
            trainer.strategy.checkpoint_io.expected = size
        directory = run_directory(trainer)
        room = trainer.strategy.broadcast(shutil.disk_usage(directory).free)
        if size > room:
            raise too_small(directory, size, room)
        left = trainer.max_steps - step_of(pl_module) if trainer.max_steps > 0 else None
        total = (files_kept(trainer.callbacks, left) + 1) * size - kept(directory)
        if total > room:
            log.warning(runs_full(size, total, room).render("warning"))
        elif trainer.is_global_zero:
            log.info("files    a checkpoint takes about %s; %s are free", amount(size), amount(room))


def files_kept(callbacks: Iterable[Callback], steps: int | None) -> int:
    """How many checkpoints the savers among these callbacks leave in so many steps (None: without a limit).

    `last.ckpt` is included; of savers without a number, one.
    """
    return 1 + sum(_kept_by(callback, steps) for callback in callbacks if isinstance(callback, Checkpoint))


def _kept_by(saver: Checkpoint, steps: int | None) -> int:
    at_most = math.inf if saver.save_top_k < 0 else saver.save_top_k
    if steps is not None and saver.every_n_train_steps and saver.every_minutes is None:
        at_most = min(at_most, steps // saver.every_n_train_steps)
    return int(at_most) if math.isfinite(at_most) else 1


def kept(directory: Path) -> int:
    """Bytes of the checkpoints that a resumed run has already."""
    return sum(size_on_disk(path) for path in directory.glob("checkpoints/**/*.ckpt"))


def too_small(directory: Path, size: int, room: int) -> Fault:
    return Fault(
        "DSK01",
        f"not enough space for checkpoints in {directory}: one needs {amount(size)}, {amount(room)} are free",
        where="--logdir",
        why="weights, EMA and optimizer; a new file is written whole before an old one goes",
        fix="make room, or --logdir on a larger disk",
    )


def runs_full(size: int, total: int, room: int) -> Fault:
    return Fault(
        "DSK01",
        f"the checkpoints of this run need about {amount(total)} more, {amount(room)} are free",
        why=f"{math.ceil(total / size)} files of {amount(size)}; a save that does not fit is left out and reported, "
        "and the run goes on",
        fix=FEWER,
    )
