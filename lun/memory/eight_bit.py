"""A stand-in for bitsandbytes' 8-bit optimizers, which cannot be built without their library: it takes their memory."""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer

LIBRARY = "bitsandbytes.optim."
BLOCK = 256  # numbers that share a scale
SMALL = 4096  # tensors of fewer numbers keep states in fp32
STATES = {"Adam": 2, "Lion": 1, "SGD": 1, "RMSprop": 1, "LAMB": 2, "Ademamix": 3}


def stands_for(target: str) -> bool:
    """Whether a recipe's target is one of these optimizers."""
    return target.startswith(LIBRARY) and target.rstrip("_").endswith("8bit")


class EightBit(Optimizer):
    """States of 8 bits a number and 4 bytes a block of 256 (Dettmers et al. 2022, arXiv 2110.02861); it never steps."""

    per_tensor = True

    def __init__(self, params: Any, target: str, lr: float = 1e-3) -> None:
        super().__init__(params, {"lr": lr})
        self.states = next((count for name, count in STATES.items() if name in target), 2)

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if not self.state[parameter]:
                    self.state[parameter] = self._state(parameter.numel())

    def _state(self, count: int) -> dict[str, torch.Tensor]:
        if count < SMALL:
            return {f"state{number}": torch.empty(count) for number in range(self.states)}
        state = {f"state{number}": torch.empty(count, dtype=torch.uint8) for number in range(self.states)}
        return state | {f"absmax{number}": torch.empty(-(-count // BLOCK)) for number in range(self.states)}
