"""What a run takes of the memory that was found, and what to change, in order, where that is much of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ldm.models.model_parts import PartSize
from ldm.operating_system import memory_bytes
from ldm.util import Recipe
from lun.plan.fixed_memory import GIB, FixedMemory, fixed_memory, is_spread
from lun.strategies.precision import policy_of

PICTURES = "pictures add: python -m lun.memory --base ..."
MUCH = 0.6
"""Share of the memory from which on pictures may not find room, so that it is said what saves some."""
WORTH_IT = 0.05
"""Share of what stays that a change has to save to be named."""
HALF_FROZEN = {"target": "lun.strategies.precision.Bf16Mixed", "params": {"frozen_half": True}}


@dataclass(frozen=True)
class Room:
    """Memory in bytes, and where it is."""

    total: int
    place: str

    @classmethod
    def found(cls, kind: str) -> "Room | None":
        """That of the first card, or of this machine for kind "cpu"; None where it is not known."""
        if kind == "cuda" and torch.cuda.is_available():
            return cls(torch.cuda.get_device_properties(0).total_memory, "the card")
        if kind == "cpu" and (total := memory_bytes()) is not None:
            return cls(total, "this machine")
        return None


def describe_room(fixed: FixedMemory, room: Room | None, trainer: Mapping[str, Any]) -> str:
    """`9.60 GiB stay (...) of the 24.0 GiB of the card; pictures add: python -m lun.memory --base ...`."""
    if is_spread(trainer):
        return f"{fixed.describe()} over all devices; {PICTURES}"
    if room is None:
        return f"{fixed.describe()}; {PICTURES}"
    more = "MORE THAN the" if fixed.total > room.total else "of the"
    return f"{fixed.describe()} {more} {room.total / GIB:.1f} GiB of {room.place}; {PICTURES}"


def describe_savings(
    fixed: FixedMemory, room: Room | None, parts: Sequence[PartSize], optimizer: Recipe, trainer: Mapping[str, Any]
) -> str | None:
    """Overlays that save memory, with how much each, in the order in which to try them; None where there is room."""
    if room is None or is_spread(trainer) or fixed.total < MUCH * room.total:
        return None
    saved = [(name, size) for name, size in savings(fixed, parts, optimizer, trainer) if size >= WORTH_IT * fixed.total]
    each = ", ".join(f"{name} -{size / GIB:.2f}" for name, size in saved)
    return f"in this order after --base: {each}  (GiB, each by itself)" if each else None


def savings(
    fixed: FixedMemory, parts: Sequence[PartSize], optimizer: Recipe, trainer: Mapping[str, Any]
) -> Iterator[tuple[str, int]]:
    """(overlay, bytes), those first that change least of the result."""
    precision = policy_of(trainer.get("precision")).name
    if precision == "32-true":
        half = fixed_memory(parts, optimizer, {**trainer, "precision": HALF_FROZEN})
        yield "bf16", fixed.weights - half.weights
    idle = [part for part in parts[1:] if not part.trained]
    yield (
        "offload-frozen",
        fixed.weights - fixed_memory([p for p in parts if p not in idle], optimizer, trainer).weights,
    )
    if fixed.optimizer:
        yield "adafactor", fixed.optimizer
    if (trainer.get("accumulate_grad_batches") or 1) == 1:
        yield "fused-backward", fixed.gradients
    if precision in ("32-true", "bf16-mixed"):
        yield "bf16-true", fixed.total - fixed_memory(parts, optimizer, {**trainer, "precision": "bf16-true"}).total
    yield "lora", fixed.gradients + (fixed.optimizer or 0)
