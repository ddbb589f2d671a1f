"""From the host to a device, without the host waiting for what is computed there; and to float64."""

import torch
from torch import Tensor

BLOCKING = ("cpu", "mps")
"""Devices to which a tensor is copied at once: Metal reads what a copy that is not waited for has not yet brought."""
WITHOUT_DOUBLE = ("mps",)
"""Devices that have no float64."""


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of any shape and dtype on `device`; one that is there already is returned as it is.

    What is copied to CUDA from pageable memory is waited for, and with it all that was queued there before: a step
    that draws its noise on the host could not be prepared while the one before is computed. So it goes by way of
    page-locked memory, which torch keeps until it has arrived, and uses again.
    """
    if tensor.device.type == "cpu" and device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=device.type not in BLOCKING)


def in_double(tensor: Tensor) -> Tensor:
    """A tensor of any shape in float64, on the CPU where its own device has none."""
    return (tensor.cpu() if tensor.device.type in WITHOUT_DOUBLE else tensor).double()
