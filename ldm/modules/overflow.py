"""Running a network outside float16, whose largest number is 65504, without leaving mixed precision elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


@contextmanager
def outside_float16(network: nn.Module, x: Tensor) -> Iterator[Tensor]:
    """Yields x, in its shape, for `network`, computed in fp32 under float16, in bfloat16 if its weights are no fp32.

    The autoencoders of SD 1.x and XL have activations beyond float16 inside. With gradients, or in any other precision,
    nothing changes: whoever trains one says in what.
    """
    device = x.device.type
    at_risk = torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device) == torch.float16
    if torch.is_grad_enabled() or not at_risk:
        yield x
        return
    precise = next(network.parameters()).dtype == torch.float32
    with torch.autocast(device, torch.bfloat16, enabled=not precise):
        yield x.float()
