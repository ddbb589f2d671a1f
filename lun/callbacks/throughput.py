"""Speed and memory of a run in its loggers."""

import logging
from typing import Any

import torch

from ldm.cpus import available_cpus
from ldm.lightning_classes import Callback, Trainer
from ldm.operating_system import resident_bytes
from lun.callbacks.pace import Pace, stopwatch

log = logging.getLogger(__name__)

GIB = 2.0**30
TOO_LONG = 0.2
ENOUGH_STEPS = 10


class Throughput(Callback):
    """Logs every `trainer.log_every_n_steps` optimizer steps (never at 0), from the second step of the process on:

    perf/images_per_s   images of all ranks a second of training; validation, sampling and saving do not count
    perf/step_ms        milliseconds of an optimizer step
    perf/data_wait      share of that time spent waiting for the next batch, 0 to 1; above 0.2 one note says so
    mem/gpu_peak_gib    the most that torch held on this GPU (CUDA or ROCm) so far
    mem/rss_gib         main memory of this process, without the loader's workers
    """

    def __init__(self) -> None:
        super().__init__()
        self._pace: Pace | None = None
        self._logged_at = 0
        self._logged = False

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        step = pl_module.position.step
        if self._pace is None:
            # The first step starts workers and warms caches: the clock runs from its end on.
            if batch_idx + 1 >= trainer.accumulate_grad_batches:
                self._pace, self._logged_at = Pace(stopwatch(trainer), pl_module.position), step
            return
        every = trainer.log_every_n_steps
        if every and step != self._logged_at and step % every == 0:
            self._log(trainer, pl_module, step)

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        self._pace = None
        stopwatch(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: Any) -> None:
        if self._pace is not None:
            self._pace.pause()

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if self._pace is not None:
            self._pace.resume()

    def _log(self, trainer: Trainer, pl_module: Any, step: int) -> None:
        assert self._pace is not None
        reading = self._pace.read()
        self._logged_at = step
        metrics = {
            "perf/images_per_s": reading.images_per_s,
            "perf/step_ms": reading.step_ms,
            "perf/data_wait": reading.wait,
        }
        if (resident := resident_gib()) is not None:
            metrics["mem/rss_gib"] = resident
        if pl_module.device.type == "cuda":
            metrics["mem/gpu_peak_gib"] = torch.cuda.max_memory_allocated(pl_module.device) / GIB
        for logger in trainer.loggers:
            logger.log_metrics(metrics, step)
        if reading.wait > TOO_LONG and reading.steps >= ENOUGH_STEPS and not self._logged:
            self._logged = True
            log.info(slow_loading(reading.wait, _workers(trainer)))


def slow_loading(wait: float, workers: int) -> str:
    """The note for a run that waits for its images; `wait` is the share of time, 0 to 1."""
    cores = available_cpus()
    now = f"(now {workers}; {cores} core{'s' * (cores != 1)})"
    more = min(cores, max(2, 2 * workers))
    fix = f"try data.params.num_workers={more} {now}"
    if more <= workers:
        fix = f"all cores read images already {now}; store smaller images, or on a faster disk"
    return f"note[PRF01]: {100 * wait:.0f} % of the time is spent waiting for images; {fix}"


def resident_gib() -> float | None:
    """Main memory that this process holds now; None where the system does not say."""
    held = resident_bytes()
    return None if held is None else held / GIB


def _workers(trainer: Trainer) -> int:
    return int(getattr(trainer.train_dataloader, "num_workers", 0))
