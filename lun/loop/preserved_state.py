"""Looking at a model in the middle of training without leaving a trace in it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def preserved_state(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards each part's mode and all random states are what they were.

    Modes are kept part by part, since a frozen first stage stays in evaluation mode while the network trains.
    """
    from lightning.pytorch.utilities.seed import isolate_rng

    modes = {part: part.training for part in module.modules()}
    with isolate_rng(), torch.no_grad():
        module.eval()
        try:
            yield
        finally:
            for part, training in modes.items():
                part.training = training
