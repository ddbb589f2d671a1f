"""The first callback of all: moves the position, stores it in checkpoints and takes it from them."""

import logging
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Optimizer

from ldm.lightning_classes import Callback, LightningModule, Trainer
from lun.loop.contract import data_of, model_of, step_of
from lun.loop.lightning_internals import micro_batches, restore_loop_counters

log = logging.getLogger(__name__)

FORMAT = 1


class FollowPosition(Callback):
    """Moves `pl_module.position` once for each completed accumulation window, right after the optimizer step.

    It has to be the first callback, so that every other one sees the new step. A checkpoint holds our position under
    `lun` instead of Lightning's loops, so one taken at any micro-batch stands for the start of its window; running
    statistics of a batch normalisation are stored as they were there.

    attempt        how often this run was started, 1 for the first time
    resumed_from   the file that it goes on from, relative to the run directory
    slot           where to go on in the data instead of the stored slot, after an accepted change of the data

    stored_attempt the attempt that wrote the file which is resumed, None without one
    dirty          true between the start of an optimizer step and the position's move: weights and position disagree
    diverged       training ends because its numbers are not finite any more; what is saved now says so
    """

    def __init__(self, attempt: int = 1, resumed_from: str | None = None, slot: int | None = None) -> None:
        self.attempt = attempt
        self.resumed_from = resumed_from
        self.slot = slot
        self.dirty = False
        self.diverged = False
        self.stored_attempt: int | None = None
        self._optimizer_steps: int | None = None
        self._running: dict[str, torch.Tensor] = {}
        self._running_before: dict[str, torch.Tensor] = {}

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint.pop("loops", None)
        ours = checkpoint.get("lun") or _of_2022(checkpoint, int(data_of(trainer).state_dict_of_data()["n"]))
        position = model_of(pl_module).position
        position.load_state_dict(ours["position"])
        if self.slot is not None:
            position.slot = self.slot
        self.stored_attempt = ours.get("attempt", 0)
        self._optimizer_steps = ours.get("optimizer_steps")
        threads = torch.get_num_threads()
        if ours.get("threads", threads) != threads:
            log.warning("this run used %d CPU threads, now %d: last bits may differ", ours["threads"], threads)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Give Lightning the position; a run that has reached `max_steps` then ends without another step."""
        step = step_of(pl_module)
        restore_loop_counters(
            trainer, pl_module, step, step if self._optimizer_steps is None else self._optimizer_steps
        )
        from lun.loop.advance_internals import quicken  # imports Lightning, as a training has by now

        quicken(trainer)
        self.dirty = False
        self._running = running_statistics(pl_module)
        if 0 <= trainer.max_steps <= step:
            trainer.should_stop = True

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Keep what the window's micro-batches will count up, since a resume counts them again from its start."""
        if batch_idx % micro_batches(trainer, pl_module) == 0:
            self._running_before = {name: buffer.clone() for name, buffer in self._running.items()}

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        self.dirty = True

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if (batch_idx + 1) % micro_batches(trainer, pl_module) == 0:
            model_of(pl_module).window_completed(data_of(trainer).global_batch)
            self.dirty = False
            self._running_before = {}

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        checkpoint.pop("loops", None)
        state = checkpoint["state_dict"]
        checkpoint["state_dict"] = state | {n: kept for n, kept in self._running_before.items() if n in state}
        checkpoint["global_step"] = step_of(pl_module)
        checkpoint["epoch"] = int(data_of(trainer).epoch)
        checkpoint["lun"] = {
            "format": FORMAT,
            "position": model_of(pl_module).position.state_dict(),
            "optimizer_steps": int(trainer.global_step),
            "data": dict(data_of(trainer).state_dict_of_data()),
            "attempt": self.attempt,
            "resumed_from": self.resumed_from,
            "threads": torch.get_num_threads(),
            "torch": str(torch.__version__),
        } | ({"diverged": True} if self.diverged else {})


def running_statistics(module: nn.Module) -> dict[str, torch.Tensor]:
    """Buffers that change with every forward pass in training: means and variances of batch normalisation."""
    return {
        f"{place}.{name}": buffer
        for place, part in module.named_modules()
        if getattr(part, "track_running_stats", False)
        for name, buffer in part.named_buffers(recurse=False)
    }


def follower(trainer: Trainer) -> FollowPosition:
    """The trainer's one `FollowPosition`."""
    for callback in cast(Any, trainer).callbacks:
        if isinstance(callback, FollowPosition):
            return callback
    raise RuntimeError("saving needs FollowPosition among the trainer's callbacks")


def _of_2022(checkpoint: dict[str, Any], n: int) -> dict[str, Any]:
    """The position in a file of translunar-diffusion: its step, and the first of `n` examples of its epoch."""
    slot = int(checkpoint["epoch"]) * n
    return {"position": {"step": int(checkpoint["global_step"]), "slot": slot, "images": slot}}
