"""A stand-in for optimizers that look at values, which fake tensors do not have: it takes their states' memory."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from ldm.admission import admitted
from ldm.modules.rounding import PER_TENSOR
from ldm.torch_internals import unset_fake_temporarily
from ldm.util import Recipe, instantiate_from_config


class ByShape(Optimizer):
    """The states of the optimizer of `recipe`, measured on one real step for each shape of a parameter."""

    def __init__(self, params: Any, recipe: Recipe) -> None:
        super().__init__(params, {})
        self.recipe = recipe
        target = str(recipe["target"])  # as in a step that is rounded
        self.per_tensor = getattr(admitted(target), "per_tensor", target.startswith(PER_TENSOR))
        self._known: dict[tuple[Any, ...], list[tuple[Any, torch.dtype]]] = {}

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                if not self.state[parameter]:
                    states = enumerate(self._shapes(tuple(parameter.shape), parameter.dtype))
                    self.state[parameter] = {str(i): torch.empty(shape, dtype=dtype) for i, (shape, dtype) in states}

    def _shapes(self, shape: tuple[int, ...], dtype: torch.dtype) -> list[tuple[Any, torch.dtype]]:
        if (shape, dtype) not in self._known:
            with unset_fake_temporarily():
                self._known[shape, dtype] = _measured(self.recipe, shape, dtype)
        return self._known[shape, dtype]


def _measured(recipe: Recipe, shape: tuple[int, ...], dtype: torch.dtype) -> list[tuple[Any, torch.dtype]]:
    parameter = torch.ones(shape, dtype=dtype, requires_grad=True)  # not zeros, of which Prodigy keeps no copy
    parameter.grad = torch.ones_like(parameter)
    optimizer: Optimizer = instantiate_from_config(recipe, [parameter], lr=1e-5)
    optimizer.step()
    state: Mapping[str, Any] = optimizer.state[parameter]
    return [(tuple(value.shape), value.dtype) for value in state.values() if isinstance(value, Tensor)]
