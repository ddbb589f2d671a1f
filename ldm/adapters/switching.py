"""A network as it was before its adapters: they are switched off, and nothing of it is drawn or learnt."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ldm.adapters.layer import Adapter


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
