"""From the host to a device, without the host waiting for what is computed there; and to float64."""

from collections.abc import Mapping
from functools import cache

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


def to_device_beside(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Tensors of any shapes and dtypes on `device`: a GPU receives them while it computes what was queued before.

    The host prepares a step while a GPU computes the one before, so that the copies of a batch, by a stream of their
    own, are over when its step begins. They begin at once even from pageable memory, where those by the computing
    stream would keep the host waiting for the step. What is computed from now on waits for them.
    """
    if device.type != "cuda":
        waits = device.type in BLOCKING
        return {name: tensor.to(device, non_blocking=not waits) for name, tensor in tensors.items()}
    side, computing = _copying(device), torch.cuda.current_stream(device)
    with torch.cuda.stream(side):
        copies = {name: tensor.to(device, non_blocking=True) for name, tensor in tensors.items()}
    computing.wait_stream(side)
    for copy in copies.values():
        copy.record_stream(computing)  # else the next copies would be given its memory while it is still read
    return copies


@cache
def _copying(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def in_double(tensor: Tensor) -> Tensor:
    """A tensor of any shape in float64, on the CPU where its own device has none."""
    return (tensor.cpu() if tensor.device.type in WITHOUT_DOUBLE else tensor).double()
