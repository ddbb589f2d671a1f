"""What a rehearsal takes: seconds of its parts, and the memory at their peaks."""

import time
from dataclasses import dataclass, field
from typing import Any

import torch

from ldm.lightning_classes import Callback, LightningModule, Trainer
from lun.callbacks.throughput import resident_gib


@dataclass
class Readings:
    """Seconds of each step, of the time before the first, of each batch of validation, and of what comes after; peaks
    on a card in bytes, by what was done, and of main memory in GiB.
    """

    before: float = 0.0
    steps: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    ended: float = 0.0
    peaks: dict[str, int] = field(default_factory=dict)
    resident: float = 0.0

    @property
    def seconds_a_step(self) -> float:
        """Of the steps but the first, which fills caches of libraries."""
        later = self.steps[1:] or self.steps
        return sum(later) / len(later) if later else 0.0


class ProbeMeter(Callback):
    """Fills `readings`. It comes after what draws samples, which happens before a step begins."""

    def __init__(self) -> None:
        self.readings = Readings()
        self._began = time.monotonic()
        self._step = 0.0
        self._batch = 0.0

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._began = time.monotonic()
        _forget_peak(pl_module.device)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        now = _now(pl_module.device)
        if not self.readings.steps and not self._step:
            self.readings.before = now - self._began
            self._peak("samples", pl_module.device)
        self._batch = now

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._step += _now(pl_module.device) - self._batch
        if (batch_idx + 1) % trainer.accumulate_grad_batches == 0:
            self.readings.steps.append(self._step)
            self._step = 0.0
            self._peak("step", pl_module.device)

    def on_validation_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._batch = _now(pl_module.device)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        self.readings.validation.append(_now(pl_module.device) - self._batch)
        self._peak("validation", pl_module.device)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.readings.ended = _now(pl_module.device)

    def _peak(self, what: str, device: torch.device) -> None:
        self.readings.resident = max(self.readings.resident, resident_gib() or 0.0)
        if device.type == "cuda":
            peak = torch.cuda.max_memory_allocated(device)
            self.readings.peaks[what] = max(peak, self.readings.peaks.get(what, 0))
            _forget_peak(device)


def _now(device: torch.device) -> float:
    """The time once the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.monotonic()


def _forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
