"""What a run is going to do, in a few lines: shown before training, and instead of it without `-t`."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from ldm.errors import Fault
from ldm.models.base import TrainedModel
from ldm.models.model_parts import PartSize, TrainingPlan
from ldm.training.groups import Group
from ldm.training.optimized import ADAMW
from ldm.util import Recipe, is_recipe
from lun.data.cache.disk_size import describe_moments
from lun.plan.fixed_memory import fixed_memory
from lun.plan.memory_room import Room, describe_room, describe_savings
from lun.plan.swap_cost import swap_cost
from lun.run.build_model import build_model
from lun.run.data_roots import MISSING
from lun.run.length import NO_LIMIT
from lun.run.rate import describe_rate, rate_of
from lun.run.settings import Settings
from lun.strategies.combinations import strategy_kind
from lun.strategies.execution import device_of
from lun.strategies.fused import steps_fused
from lun.strategies.precision import policy_of

T = TypeVar("T")
UNKNOWN = "not known yet"
NOT_NAMED = "none named"
SHOWN = (bool, int, float, str, list)


@dataclass(frozen=True)
class Amounts:
    """What only pictures and devices show: examples of both sets, a step's parts, and the length in steps."""

    n: int
    n_validation: int | None
    batch_size: int
    accumulate: int
    devices: int
    max_steps: int
    first_end: str = ""
    """of two ends which comes first, in words"""

    @property
    def images(self) -> int:
        return self.batch_size * self.accumulate * self.devices

    def describe_data(self) -> str:
        validation = "no validation" if self.n_validation is None else f"{self.n_validation:,} for validation"
        return f"{self.n:,} images, {validation}"

    def describe_steps(self) -> str:
        product = f"batch {self.batch_size} x accumulate {self.accumulate} x devices {self.devices}"
        rate = f"{product} = {self.images} images a step, {self.n / self.images:.1f} steps an epoch"
        if self.max_steps == NO_LIMIT:
            return f"{rate}; until the time limit"
        ended = f" ({self.first_end})" if self.first_end else ""
        return f"{self.max_steps:,} steps{ended} = {self.max_steps * self.images / self.n:.1f} epochs; {rate}"


@dataclass(frozen=True)
class Plan:
    """Everything that a person should know before the first step, as far as it is known: without `amounts` and `model`
    what the settings alone say.
    """

    settings: Settings
    overrides: int
    model: TrainedModel | None = None
    amounts: Amounts | None = None

    def lines(self) -> list[str]:
        return [f"{label:<8} {text}" for label, text in self._rows()]

    def _rows(self) -> Iterator[tuple[str, str]]:
        trainer, model = self.settings.trainer(), self.settings.config["model"]
        planned = _known(self.training_plan) or TrainingPlan()
        parts = planned.parts
        optimizer = (model.get("params") or {}).get("optimizer_config") or ADAMW
        command_line = f" < command line ({self.overrides} settings)" if self.overrides else ""
        yield "config", " < ".join(self.settings.files) + command_line
        yield "data", f"{self._data()}: {self.amounts.describe_data() if self.amounts else UNKNOWN}"
        if self.amounts and (kept := describe_moments(self.settings.config, self.amounts.n)):
            yield "cache", kept
        yield "model", str(model["target"]).rpartition(".")[2] + ": " + (describe_parts(parts) if parts else UNKNOWN)
        yield "device", _known(lambda: describe_device(trainer, self.amounts)) or UNKNOWN
        kernel = ", fused" if _known(lambda: is_fused(optimizer, trainer)) else ""
        yield "optim", describe_optimizer(optimizer) + kernel
        for line in describe_groups(planned.groups, self.model.learning_rate if self.model and self.amounts else None):
            yield "trains", line
        if parts:
            yield from _known(lambda: self._memory(parts, optimizer)) or [("memory", UNKNOWN)]
        yield "steps", self.amounts.describe_steps() if self.amounts else UNKNOWN
        if self.amounts:
            yield "rate", describe_rate(*rate_of(model), self.amounts.images)

    def _memory(self, parts: list[PartSize], optimizer: Recipe) -> list[tuple[str, str]]:
        """What stays on the device, what saves some of it where that is much, and what streaming blocks costs."""
        trainer, swap = self.settings.trainer(), _known(lambda: swap_cost(self.settings.config, parts))
        fixed, room = fixed_memory(parts, optimizer, trainer, swap.away if swap else 0), Room.found(device_of(trainer))
        rows = [("memory", describe_room(fixed, room, trainer))]
        if less := describe_savings(fixed, room, parts, optimizer, trainer):
            rows.append(("to save", less))
        return [*rows, ("swap", swap.describe())] if swap else rows

    def training_plan(self) -> TrainingPlan:
        """The networks of the model, which is built for that, without weights, if it is not there; what trains."""
        return (self.model or build_model(self.settings.config)).training_plan()

    def _data(self) -> str:
        train = self.settings.config["data"]["params"]["train"]
        if "sets" in train:
            return ", ".join(f"{name}: {_root(one)}" for name, one in train["sets"].items() if one is not None)
        return _root(train)


def _root(recipe: Recipe) -> str:
    """The folder that a dataset reads, else its class."""
    root = (recipe.get("params") or {}).get("data_root", recipe["target"])
    return NOT_NAMED if root == MISSING else str(root)


def describe_parts(parts: list[PartSize]) -> str:
    """`UNet 859.52 M trained · first stage 83.65 M frozen`."""
    return " · ".join(
        f"{part.name} {part.parameters / 1e6:.2f} M {_how_far_trained(part)}{_in_few_bits(part)}" for part in parts
    )


def _how_far_trained(part: PartSize) -> str:
    if 0 < part.trained < part.parameters:
        return f"({part.trained / 1e6:.2f} M trained)"
    return "trained" if part.trained else "frozen"


def _in_few_bits(part: PartSize) -> str:
    numbers, size = part.coded
    return f", {numbers / 1e6:.2f} M of it in {8 * size / numbers:.1f} bits" if numbers else ""


def describe_groups(groups: Sequence[Group], learning_rate: float | None) -> list[str]:
    """`unet          859.52 M in 686 tensors at 1.0e-05` for each group of the optimizer, aligned."""
    names = [", ".join(dict.fromkeys(name.partition(".")[0] for name in group.names)) for group in groups]
    width = max(map(len, names), default=0)
    described = (group.described(learning_rate) for group in groups)
    return [f"{name:<{width}}  {line}" if name else line for name, line in zip(names, described, strict=True)]


def describe_device(trainer: Mapping[str, Any], amounts: Amounts | None) -> str:
    """`1 x cuda (NVIDIA H200), bf16-mixed, frozen parts in half precision, strategy ...`."""
    kind, policy = device_of(trainer), policy_of(trainer.get("precision"))
    count = amounts.devices if amounts else trainer.get("devices", 1)
    name = f" ({torch.cuda.get_device_name()})" if kind == "cuda" and torch.cuda.is_available() else ""
    half = ", frozen parts in half precision" if getattr(policy, "frozen_half", False) else ""
    strategy: Any = trainer.get("strategy") or "auto"
    named = strategy["target"] if is_recipe(strategy) else strategy
    return f"{count} x {kind}{name}, {policy.name}{half}" + ("" if named == "auto" else f", strategy {named}")


def is_fused(optimizer: Recipe, trainer: Mapping[str, Any]) -> bool:
    """Whether the run lets an optimizer whose settings do not say so step all tensors by one kernel."""
    precision = policy_of(trainer.get("precision")).name
    return steps_fused(optimizer, device_of(trainer), strategy_kind(trainer.get("strategy")), precision)


def describe_optimizer(recipe: Recipe) -> str:
    """`torch.optim.AdamW, betas [0.9, 0.999], weight_decay 0.01`."""
    params = (recipe.get("params") or {}).items()
    return ", ".join(
        [str(recipe["target"]), *(f"{name} {value}" for name, value in params if isinstance(value, SHOWN))]
    )


def _known(ask: Callable[[], T]) -> T | None:
    """What is asked, or None where a fault is in the way, which is reported at the end."""
    try:
        return ask()
    except Fault:
        return None
