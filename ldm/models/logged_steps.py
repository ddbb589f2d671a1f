"""What a model in training says of its steps: to loggers when a log is due, to callbacks whenever they ask."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ldm.lightning_internals import logs_anything
from ldm.training.optimized import OptimizedModel
from ldm.training.step_metrics import StepMetrics
from ldm.training.window import over_ranks


class LogsSteps(OptimizedModel):
    """The side of a trained model that measures its steps.

    Loggers get the numbers of a window under the number of completed steps, every `trainer.log_every_n_steps` of them
    and where training is about to stop. In between they stay on their device: `latest_metrics` has them for who asks.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.step_metrics = StepMetrics()
        self._logged_at = -1

    def window_mean(self, losses: Tensor) -> Tensor:
        """Losses of a micro-batch's examples, (b,), as its part of the mean over all N examples of its window.

        That is sum x k x W / N for k micro-batches on W ranks, since Lightning divides by k and ranks average: right
        also where micro-batches differ in size, for which a mean of means is not.
        """
        examples = getattr(getattr(self.trainer, "datamodule", None), "global_batch", None)
        if examples is None:
            return losses.mean()
        share = examples / (self.trainer.accumulate_grad_batches * self.trainer.world_size)
        return losses.mean() if share == len(losses) else losses.sum() / share  # in one launch, where they are alike

    def log_window(self, batch_idx: int, means: Mapping[str, Tensor], **plain: float) -> None:
        """Measure a micro-batch; what is logged at the end of its window is the mean over the window and all ranks.

        means   scalars of the micro-batch, by `window_mean`
        plain   numbers that are the same everywhere
        """
        self.step_metrics.add(means)
        if (batch_idx + 1) % self.trainer.accumulate_grad_batches == 0:
            self.keep_window(self.step_metrics.close_window(), **plain)

    def keep_window(self, means: Mapping[str, Tensor], **plain: float) -> None:
        """Keep a window's means on this rank, averaged over all ranks, under the number that its step will have."""
        shared = over_ranks(means, self.average) if self.trainer.world_size > 1 else means
        self.step_metrics.keep({**shared, **plain, "step": float(self.position.step + 1)})

    def average(self, tensor: Tensor) -> Tensor:
        """The mean of the ranks' tensors, of any shape. Collective."""
        averaged: Tensor = self.trainer.strategy.reduce(tensor, reduce_op="mean")
        return averaged

    def latest_metrics(self) -> dict[str, Tensor]:
        """What the last completed window measured, as scalars, of which none was read from its device."""
        return self.step_metrics.latest()

    def log_step(self) -> None:
        """Give the completed step to the loggers, if a log is due."""
        every = self.trainer.log_every_n_steps
        if every and self.position.step % every == 0:
            self._log_latest()

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """The last step before a stop is logged, too, as Lightning does."""
        if self.trainer.should_stop and self.trainer.log_every_n_steps:
            self._log_latest()

    def _log_latest(self) -> None:
        step = self.position.step
        if self._logged_at == step:
            return
        self._logged_at = step
        if logs_anything(self.trainer):
            self.log_dict({**self.latest_metrics(), "step": float(step)})  # in one row with what a person logs
            return
        numbers = self.step_metrics.read() if self.trainer.loggers else {}
        numbers.pop("step", None)
        for logger in self.trainer.loggers if numbers else ():
            logger.log_metrics(numbers, step)  # Lightning's way takes 2 ms, and then something in every step
            logger.save()
