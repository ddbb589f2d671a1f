"""The line that shows how a run goes: a bar on a terminal, now and then a plain line elsewhere."""

import logging
import sys
from collections.abc import Mapping
from time import monotonic
from typing import Any

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import TQDMProgressBar
from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm
from torch import Tensor

from lun.callbacks.pace import Pace, stopwatch

log = logging.getLogger(__name__)

BAR = "  [{bar:40}] {percentage:3.0f}%  {desc}"
PLAIN_SECONDS, PLAIN_STEPS = 30.0, 100
BAR_SECONDS = 0.1
SPEED_SMOOTHING = 0.98
GIB = 2.0**30
VALIDATION = ("val/loss_simple_ema", "val/loss_simple", "val/loss", "val/rec_loss")


class Smooth:
    """An exponential moving average that is right from its first value on (bias-corrected)."""

    def __init__(self, keep: float) -> None:
        self.keep = keep
        self._sum: Any = 0.0
        self._weight = 0.0

    def add(self, value: Any, times: int = 1) -> None:
        """Take in a number, or a tensor without waiting for it, as if it came `times` times."""
        keep = self.keep**times
        self._sum = keep * self._sum + (1 - keep) * value
        self._weight = keep * self._weight + (1 - keep)

    @property
    def value(self) -> float | None:
        """The average; for a tensor this waits for the device."""
        return float(self._sum) / self._weight if self._weight else None


class SmoothedProgressBar(TQDMProgressBar):
    """Counts optimizer steps of the whole run, over accumulation and resumes, with smoothed loss, speed and time left.

    On a terminal one line is redrawn; elsewhere (a log file, a container) a plain line is logged every 30 s or 100
    steps, whichever is later. After each validation one line stays.

    smoothing     how much of the old average a new loss leaves, 0 (none) to below 1; the loss is that of this rank
    refresh_rate  redraw at most every so many steps (and ten times a second); 0 shows nothing
    """

    def __init__(self, smoothing: float = 0.98, refresh_rate: int = 1) -> None:
        super().__init__(refresh_rate=refresh_rate)
        self.loss = Smooth(smoothing)
        self._step_seconds = Smooth(SPEED_SMOOTHING)
        self._wait = Smooth(SPEED_SMOOTHING)
        self._images_a_step = 0.0
        self._pace: Pace | None = None
        self._shown_at, self._shown_step = 0.0, 0

    @property
    def is_enabled(self) -> bool:
        """Whether bars are drawn, those of the sanity check and of validation included."""
        return self._wanted and _terminal()

    @property
    def _wanted(self) -> bool:
        return super().is_enabled

    def init_train_tqdm(self) -> Tqdm:
        look = {"ascii": ".#", "bar_format": BAR, "dynamic_ncols": True}
        return Tqdm(disable=self.is_disabled, leave=False, file=sys.stdout, **look)

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        super().on_train_start(trainer, pl_module)
        self._pace = Pace(stopwatch(trainer), pl_module.position)
        self._shown_at, self._shown_step = monotonic(), pl_module.position.step

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        bar = self.train_progress_bar
        bar.reset(total=trainer.max_steps if trainer.max_steps > 0 else None)
        bar.n = bar.initial = pl_module.position.step

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = _loss(outputs)
        if loss is not None:
            # Lightning hands over the loss divided by the micro-batches of a window.
            self.loss.add(loss * trainer.accumulate_grad_batches if pl_module.automatic_optimization else loss)
        if self._due(pl_module.position.step):
            self._show(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Nothing: Lightning's own would add its metrics to the bar."""

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        if self._wanted and pl_module.position.step > self._shown_step:
            self._show(trainer, pl_module)
        super().on_train_end(trainer, pl_module)

    def on_validation_start(self, trainer: Trainer, pl_module: Any) -> None:
        super().on_validation_start(trainer, pl_module)
        if self._pace is not None:
            self._pace.pause()

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        self.val_progress_bar.close()
        self.reset_dataloader_idx_tracker()
        if self._pace is not None:
            self._pace.resume()
        if self._wanted and not trainer.sanity_checking and trainer.state.fn == "fit":
            log.info(summary(pl_module.position.step, self.loss.value, validation_loss(trainer, pl_module)))

    def _due(self, step: int) -> bool:
        steps, seconds = step - self._shown_step, monotonic() - self._shown_at
        if self.is_enabled:
            return steps >= self.refresh_rate and seconds >= BAR_SECONDS
        return self._wanted and steps >= PLAIN_STEPS and seconds >= PLAIN_SECONDS

    def _show(self, trainer: Trainer, pl_module: Any) -> None:
        assert self._pace is not None
        step = pl_module.position.step
        reading = self._pace.read()
        self._shown_at, self._shown_step = monotonic(), step
        if reading.steps:
            self._step_seconds.add(reading.seconds / reading.steps, reading.steps)
            self._wait.add(reading.wait, reading.steps)
            self._images_a_step = reading.images / reading.steps
        total = trainer.max_steps if trainer.max_steps > 0 else None
        speed = self._step_seconds.value, self._images_a_step, self._wait.value
        text = progress_line(step, total, self.loss.value, *speed, _memory(pl_module))
        if self.is_enabled:
            self.train_progress_bar.n = step
            self.train_progress_bar.set_description_str(text, refresh=True)
        else:
            log.info("step %s", text)


def progress_line(
    step: int,
    total: int | None,
    loss: float | None,
    seconds: float | None,
    images: float,
    wait: float | None,
    memory: str | None = None,
) -> str:
    """`218/900  loss 0.183 (smooth)  7.6 it/s  243 img/s  wait 1%  eta 1:29`, with what is known so far.

    seconds  of one step;  images  of one step;  wait  share of the time, 0 to 1;  memory  such as `18.3/24.0 GiB`
    """
    parts = [f"{step}/{total}" if total else str(step)]
    if loss is not None:
        parts.append(f"loss {loss:.3f} (smooth)")
    if seconds:
        parts.append(f"{1 / seconds:.1f} it/s" if seconds < 1 else f"{seconds:.1f} s/it")
        parts.append(f"{images / seconds:.0f} img/s" if images / seconds >= 10 else f"{images / seconds:.1f} img/s")
    if wait is not None:
        parts.append(f"wait {100 * wait:.0f}%")
    if memory:
        parts.append(f"mem {memory}")
    if seconds and total:
        parts.append(f"eta {duration(max(0, total - step) * seconds)}")
    return "  ".join(parts)


def summary(step: int, loss: float | None, val: float | None) -> str:
    """`step   225  loss 0.171  val 0.204`, the line that stays after a validation."""
    parts = [f"step {step:5d}"]
    parts += [f"{name} {value:.3f}" for name, value in (("loss", loss), ("val", val)) if value is not None]
    return "  ".join(parts)


def duration(seconds: float) -> str:
    """`1:29`, `2:03:09` or `3 d 4:00:00`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if not hours:
        return f"{minute}:{second:02}"
    return f"{days} d {hour}:{minute:02}:{second:02}" if days else f"{hour}:{minute:02}:{second:02}"


def validation_loss(trainer: Trainer, pl_module: Any) -> float | None:
    """The monitored metric if it is one of validation, else the first of the usual ones that was logged."""
    monitor = getattr(pl_module, "monitor", None)
    names = ([monitor] if monitor and monitor.startswith("val/") else []) + list(VALIDATION)
    found = (trainer.callback_metrics[name] for name in names if name in trainer.callback_metrics)
    value = next(found, None)
    return None if value is None else float(value)


def _loss(outputs: Any) -> Tensor | None:
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return loss.detach() if isinstance(loss, Tensor) else None


def _memory(pl_module: Any) -> str | None:
    if pl_module.device.type != "cuda":
        return None
    total = torch.cuda.get_device_properties(pl_module.device).total_memory
    return f"{torch.cuda.max_memory_allocated(pl_module.device) / GIB:.1f}/{total / GIB:.1f} GiB"


def _terminal() -> bool:
    return sys.stdout.isatty()
