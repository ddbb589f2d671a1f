"""A network as it was before its adapters, which are switched off, or with as much of them as is asked for."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from ldm.adapters.layer import Adapter, adapters_in


@contextmanager
def without_adapters(network: nn.Module) -> Iterator[None]:
    """Within it `network` computes what its base alone does, in evaluation mode and without gradients."""
    training = [module for module in network.modules() if module.training]
    adapters = [module for module in network.modules() if isinstance(module, Adapter)]
    try:
        for module in training:
            module.training = False
        for adapter in adapters:
            adapter.active = False
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True
        for adapter in adapters:
            adapter.active = True


def parameters_of_adapters(network: nn.Module) -> set[int]:
    """The ids of all parameters that `without_adapters` leaves out."""
    return {id(p) for module in network.modules() if isinstance(module, Adapter) for p in module.parameters()}


def merge_at(layers: Mapping[str, nn.Module], strength: float) -> int:
    """Put `strength` of what the adapters of `layers` change into the weights, and switch them off; how many they were.

    1 is all of it, 0 leaves the base, below 0 leads away. A DoRA is interpolated, as `ldm.adapters.arithmetic.patched`.
    """
    found = list(adapters_in(layers))
    with torch.no_grad():
        for name, adapter in found:
            weight: torch.Tensor = layers[name].weight  # type: ignore[assignment]
            base = weight.float()
            weight.copy_(base + strength * (adapter.merged(weight) - base))
            adapter.active = False
    return len(found)
