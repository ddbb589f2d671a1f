"""The line that shows how a run goes: a bar on a terminal, now and then a plain line elsewhere."""

import logging
import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ldm.lightning_classes import TQDMProgressBar, Trainer
from lun.callbacks.activity import Activity, Ticker, drawing
from lun.callbacks.line import Standing, bar_line, progress_line, summary
from lun.callbacks.pace import Pace, stopwatch

if TYPE_CHECKING:
    from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm

log = logging.getLogger(__name__)

PLAIN_SECONDS, PLAIN_STEPS = 30.0, 100
BAR_SECONDS = 0.1
SPEED_SMOOTHING = 0.98
GIB = 2.0**30
VALIDATION = ("val/loss_simple_ema", "val/loss_simple", "val/loss", "val/rec_loss")


class Smooth:
    """An exponential moving average that is right from its first value on (bias-corrected)."""

    def __init__(self, keep: float) -> None:
        self.keep = keep
        self._sum = 0.0
        self._weight = 0.0
        self._unread: list[Tensor] = []

    def add(self, value: float, times: int = 1) -> None:
        """Take in a number as if it came `times` times."""
        keep = self.keep**times
        self._sum = keep * self._sum + (1 - keep) * value
        self._weight = keep * self._weight + (1 - keep)

    def add_later(self, value: Tensor) -> None:
        """Take in a scalar without waiting for its device, or asking it for anything, until the average is read."""
        self._unread.append(value)

    @property
    def value(self) -> float | None:
        """The average; where scalars are unread this waits for the device, once for all of them."""
        unread, self._unread = self._unread, []
        for value in torch.stack([one.float() for one in unread]).tolist() if unread else ():
            self.add(value)
        return self._sum / self._weight if self._weight else None


class SmoothedProgressBar(TQDMProgressBar):
    """Counts optimizer steps of the whole run, over accumulation and resumes, with smoothed loss, speed and time left.

    On a terminal one line is redrawn, which fits its width and says what goes on between steps; elsewhere (a log file,
    a container) a plain line is logged every 30 s or 100 steps, whichever is later. After each validation one line
    stays.

    smoothing     how much of the old average a new loss leaves, 0 (none) to below 1; the loss is that of this rank
    refresh_rate  redraw at most every so many steps (and ten times a second); 0 shows nothing
    """

    def __init__(self, smoothing: float = 0.98, refresh_rate: int = 1) -> None:
        self.lightning_arguments = {"refresh_rate": refresh_rate}
        self.loss = Smooth(smoothing)
        self._step_seconds = Smooth(SPEED_SMOOTHING)
        self._wait = Smooth(SPEED_SMOOTHING)
        self._images_a_step = 0.0
        self._pace: Pace | None = None
        self._activity: Activity | None = None
        self._ticker: Ticker | None = None
        self._standing = Standing(0)
        self._doing = ""
        self._shown_at, self._shown_step = 0.0, 0

    @property
    def is_enabled(self) -> bool:
        """Whether a line is redrawn."""
        return self._wanted and _terminal()

    @property
    def _wanted(self) -> bool:
        return super().is_enabled

    def init_train_tqdm(self) -> "Tqdm":
        from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm

        return Tqdm(disable=self.is_disabled, leave=False, file=sys.stdout, bar_format="{desc}")

    def init_sanity_tqdm(self) -> "Tqdm":
        """None of its own, as for validation: the one line says what goes on."""
        from lightning.pytorch.callbacks.progress.tqdm_progress import Tqdm

        return Tqdm(disable=True)

    init_validation_tqdm = init_sanity_tqdm

    def on_sanity_check_start(self, trainer: Trainer, pl_module: Any) -> None:
        super().on_sanity_check_start(trainer, pl_module)
        self._open(trainer, pl_module)

    def on_sanity_check_end(self, *_: Any) -> None:
        """Nothing: the line goes on to training."""

    def on_train_start(self, trainer: Trainer, pl_module: Any) -> None:
        if self._activity is None:
            self._open(trainer, pl_module)
        self._pace = Pace(stopwatch(trainer), pl_module.position)

    def _open(self, trainer: Trainer, pl_module: Any) -> None:
        """Show the line as it is before the first step."""
        self.train_progress_bar = self.init_train_tqdm()
        self._activity = Activity(stopwatch(trainer), trainer.callbacks)
        self._shown_at, self._shown_step = monotonic(), pl_module.position.step
        self._standing = Standing(pl_module.position.step, _total(trainer))
        if self.is_enabled:
            self._draw()
            self._ticker = Ticker(self._tick)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: Any) -> None:
        """Nothing: Lightning's one epoch is endless."""

    def on_train_batch_end(self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = _loss(outputs)
        if loss is not None and self._wanted:
            # Lightning hands over the loss divided by the micro-batches of a window.
            parts = trainer.accumulate_grad_batches if pl_module.automatic_optimization else 1
            self.loss.add_later(loss if parts == 1 else loss * parts)
        if self._due(pl_module.position.step):
            self._show(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: Any) -> None:
        """Nothing: Lightning's own would add its metrics to the bar."""

    def on_train_end(self, trainer: Trainer, pl_module: Any) -> None:
        """The line stays: what comes after the last step, a save above all, is shown in it."""
        if self._wanted and pl_module.position.step > self._shown_step:
            self._show(trainer, pl_module)

    def on_exception(self, trainer: Trainer, pl_module: Any, exception: BaseException) -> None:
        self._close()

    def teardown(self, trainer: Trainer, pl_module: Any, stage: str) -> None:
        self._close()

    def on_validation_start(self, trainer: Trainer, pl_module: Any) -> None:
        super().on_validation_start(trainer, pl_module)
        if self._pace is not None:
            self._pace.pause()
        self._say_validating(trainer, 0)

    def on_validation_batch_start(self, *_: Any) -> None:
        """Nothing: there is no bar of validation's own."""

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self._say_validating(trainer, batch_idx + 1)

    def on_validation_end(self, trainer: Trainer, pl_module: Any) -> None:
        if self._pace is not None:
            self._pace.resume()
        if self._activity is not None:
            self._activity.end()
        if self._wanted and not trainer.sanity_checking and trainer.state.fn == "fit":
            log.info(summary(pl_module.position.step, self.loss.value, validation_loss(trainer, pl_module)))

    def _say_validating(self, trainer: Trainer, done: int) -> None:
        if self._activity is not None:
            batches = trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches
            self._activity.begin(f"validating {done}/{sum(batches)}")

    def _due(self, step: int) -> bool:
        steps, seconds = step - self._shown_step, monotonic() - self._shown_at
        if seconds < BAR_SECONDS:  # the least of both
            return False
        if self.is_enabled:
            return steps >= self.refresh_rate
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
        speed = self._step_seconds.value, self._images_a_step, self._wait.value
        self._standing = Standing(step, _total(trainer), self.loss.value, *speed, _memory(pl_module))
        if self.is_enabled:
            self._draw()
        else:
            log.info("step %s", progress_line(self._standing))

    def _draw(self, doing: str = "") -> None:
        with drawing, suppress(OSError):  # a closed terminal ends no run
            self._doing = doing
            self.train_progress_bar.set_description_str(bar_line(self._standing, _columns() - 1, doing), refresh=True)

    def _tick(self) -> None:
        """Say what goes on if it takes long, and no longer once it is over; nothing is read from the device here."""
        activity = self._activity
        doing = activity.words() if activity is not None else ""
        if doing != self._doing:
            self._draw(doing)

    def _close(self) -> None:
        self._activity = None
        ticker, self._ticker = self._ticker, None
        if ticker is not None:
            ticker.stop()
        if self._train_progress_bar is not None:
            with suppress(OSError):
                self._train_progress_bar.close()


def validation_loss(trainer: Trainer, pl_module: Any) -> float | None:
    """The monitored metric if it is one of validation, else the first of the usual ones that was logged."""
    monitor = getattr(pl_module, "monitor", None)
    names = ([monitor] if monitor and monitor.startswith("val/") else []) + list(VALIDATION)
    values = (trainer.callback_metrics[name] for name in names if name in trainer.callback_metrics)
    value = next(values, None)
    return None if value is None else float(value)


def _loss(outputs: Any) -> Tensor | None:
    loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
    return loss.detach() if isinstance(loss, Tensor) else None


def _memory(pl_module: Any) -> str | None:
    if pl_module.device.type != "cuda":
        return None
    total = torch.cuda.get_device_properties(pl_module.device).total_memory
    return f"{torch.cuda.max_memory_allocated(pl_module.device) / GIB:.1f}/{total / GIB:.1f} GiB"


def _total(trainer: Trainer) -> int | None:
    return trainer.max_steps if trainer.max_steps > 0 else None


def _terminal() -> bool:
    return sys.stdout.isatty()


def _columns() -> int:
    """Of the terminal, as wide as it is now."""
    try:
        asked = os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):  # no terminal after all, such as a test's
        asked = 0
    return asked or shutil.get_terminal_size().columns
