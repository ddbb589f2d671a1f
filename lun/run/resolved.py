"""What a start settles once its data is known: one frozen value, from which model, data and Trainer take it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldm.models.run_context import RunContext
from ldm.training.optimized import ADAMW
from ldm.training.rules import recipe_with_horizon
from ldm.training.schedule import with_horizon
from lun.data.order.position_sampler import Window
from lun.run.length import Length
from lun.run.rate import rate_of, scaled_rate
from lun.strategies.execution import Execution
from lun.strategies.fused import steps_fused


@dataclass(frozen=True)
class ResolvedRun:
    """The run that a configuration comes to on this machine, with these data.

    config         the configuration as it is stored: with the seed and the horizon of its schedule
    execution      strategy, precision, device and ranks
    window         the examples of an optimizer step, and which of them this rank reads
    length         steps, and steps between validations
    seed           of every random draw
    learning_rate  base rate, scaled by the images of a step where that was asked for
    """

    config: dict[str, Any]
    execution: Execution
    window: Window
    length: Length
    seed: int
    learning_rate: float

    def context(self, resumed: bool) -> RunContext:
        """The part of it that the model takes."""
        execution = self.execution
        optimizer = self.config["model"].get("params", {}).get("optimizer_config") or ADAMW
        fused = steps_fused(optimizer, execution.device, execution.kind, execution.precision.name)
        return RunContext(
            self.seed, self.learning_rate, self.length.max_steps, resumed, fused, trainer=execution.settings
        )


def window_of(execution: Execution, batch_size: int) -> Window:
    """How an optimizer step divides into the micro-batches of all ranks."""
    ranks = execution.ranks
    return Window(batch_size, execution.settings.get("accumulate_grad_batches", 1), ranks.count, ranks.own)


def resolve(config: Mapping[str, Any], execution: Execution, window: Window, length: Length, seed: int) -> ResolvedRun:
    """Fill in what the run decides. Raises `Fault` CFG03 for a schedule that needs a length which there is not."""
    model = dict(config["model"])
    params = dict(model.get("params") or {})
    for name, settle in (("scheduler_config", with_horizon), ("training_config", recipe_with_horizon)):
        if params.get(name):
            params[name] = settle(params[name], length.max_steps)
    model["params"] = params
    rate = scaled_rate(*rate_of(model), window.global_batch)
    return ResolvedRun({**config, "seed": seed, "model": model}, execution, window, length, seed, rate)
