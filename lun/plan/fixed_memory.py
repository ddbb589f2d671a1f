"""What weights, gradients and the optimizer's states take on the device: arithmetic, done before anything is built."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.models.model_parts import PartSize
from ldm.remembered import remembered
from ldm.util import Recipe, instantiate_from_config
from lun.strategies.combinations import strategy_kind
from lun.strategies.precision import policy_of

GIB = 2**30
LIBRARY = "torch.optim."
SHAPES = ((8, 8), (4, 16))
IN_HALF = ("bf16-true", "bf16-master")
"""Precisions in which the model's weights are bfloat16."""
WHOLE_AT_FP16 = "first stage"
"""The part that overflows in float16, and stays in float32 there."""


@dataclass(frozen=True)
class FixedMemory:
    """Bytes that stay on the device all the time; of the optimizer's states None where only a card shows it."""

    weights: int
    gradients: int
    optimizer: int | None

    @property
    def total(self) -> int:
        return self.weights + self.gradients + (self.optimizer or 0)

    def describe(self, unit: int = GIB) -> str:
        """`9.60 GiB stay (weights 3.20 + gradients 3.20 + optimizer 3.20)`, of which what is not known is no number."""
        known = {"weights": self.weights, "gradients": self.gradients}
        known |= {} if self.optimizer is None else {"optimizer": self.optimizer}
        named = " + ".join(f"{name} {bytes_ / unit:.2f}" for name, bytes_ in known.items())
        unknown = "" if self.optimizer is not None else " + optimizer: unknown"
        least = "" if self.optimizer is not None else "at least "
        return f"{least}{self.total / unit:.2f} GiB stay ({named}{unknown})"


def fixed_memory(
    parts: Sequence[PartSize], optimizer: Recipe, trainer: Mapping[str, Any], away: float = 0
) -> FixedMemory:
    """What weights, gradients and states take, of all devices together where a strategy spreads them.

    away  bytes of weights that lie in main memory
    """
    policy = policy_of(trainer.get("precision"))
    trained = sum(part.trained for part in parts)
    sums = (trainer.get("accumulate_grad_batches") or 1) > 1
    gradients = sum(_of_trained(part, policy) + sums * lower_halves(part, policy) for part in parts)
    weights = round(sum(bytes_of(part, policy) + lower_halves(part, policy) for part in parts) - away)
    states = state_bytes(optimizer)
    return FixedMemory(weights, gradients, None if states is None else round(trained * states))


def is_spread(trainer: Mapping[str, Any]) -> bool:
    """Whether a strategy spreads weights and states over all devices."""
    return strategy_kind(trainer.get("strategy")) in ("fsdp", "deepspeed")


def state_bytes(optimizer: Recipe) -> float | None:
    """Bytes of state for each trained weight (float32 in every precision), measured in one step on two small tensors.

    None where they differ, as with Adafactor's rows and columns, and for what may compile something or steps on a GPU
    alone.
    """
    if not str(optimizer["target"]).startswith(LIBRARY):
        return None
    found: float | None = remembered("optimizer-states", optimizer, lambda: _bytes_of_states(optimizer))
    return found


def _bytes_of_states(optimizer: Recipe) -> float | None:
    try:
        measured = {_measured(optimizer, shape) for shape in SHAPES}
    except (Fault, RuntimeError, TypeError):  # the start reports what is wrong with it
        return None
    return measured.pop() if len(measured) == 1 else None


def _measured(recipe: Recipe, shape: tuple[int, ...]) -> float:
    weight = nn.Parameter(torch.zeros(shape))
    weight.grad = torch.zeros_like(weight)
    optimizer: torch.optim.Optimizer = instantiate_from_config(recipe, [weight], lr=1e-5)
    optimizer.step()
    states = [value for value in optimizer.state[weight].values() if isinstance(value, Tensor)]
    return sum(value.nbytes for value in states if value.ndim) / prod(shape)


def _of_trained(part: PartSize, policy: Any) -> int:
    """Bytes of a part's weights that train, as many as those of their gradients."""
    return 2 * (part.trained + part.precise[0]) if policy.name in IN_HALF else 4 * part.trained


def lower_halves(part: PartSize, policy: Any) -> int:
    """Bytes of what a part's trained weights lack of fp32, where that is kept; of gradients over a window as many."""
    return 2 * (part.trained - part.precise[0]) if policy.name == "bf16-master" else 0


def bytes_of(part: PartSize, policy: Any) -> int:
    """Of a part's weights, which trained or frozen may differ in."""
    numbers, coded = part.coded
    if policy.name in IN_HALF:
        return 2 * (part.parameters - numbers + sum(part.precise)) + coded
    frozen = part.parameters - part.trained - numbers
    in_half = getattr(policy, "frozen_half", False) and not (policy.name == "16-mixed" and part.name == WHOLE_AT_FP16)
    return 4 * part.trained + (2 * (frozen + part.precise[1]) if in_half else 4 * frozen) + coded
