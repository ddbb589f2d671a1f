"""What differs between a CPU and CUDA in how much memory an operation takes."""

from collections.abc import Iterable
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.optim import Adafactor, Optimizer


def normalise_in_full(network: nn.Module) -> None:
    """Let normalisations run in fp32 under autocast, as CUDA's list of operations has it and the CPU's has not."""
    for part in network.modules():
        if isinstance(part, nn.GroupNorm | nn.LayerNorm):
            part.forward = partial(_in_full, part)  # type: ignore[method-assign]


def update_all_at_once(optimizer: Optimizer) -> None:
    """Let torch's optimizers go through all tensors together, which is their default on CUDA and takes more memory."""
    for group in optimizer.param_groups if not isinstance(optimizer, Adafactor) else ():
        if group.get("foreach", 0) is None and not group.get("fused"):
            group["foreach"] = True


def sizes_of(tensors: Iterable[Tensor]) -> int:
    """Bytes of all of them."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _in_full(part: nn.Module, x: Tensor) -> Tensor:
    forward = type(part).forward
    if not torch.is_autocast_enabled("cpu"):
        return forward(part, x)
    weights = {name: weight.float() for name, weight in part.named_parameters()}
    with torch.autocast("cpu", enabled=False):
        return functional_call(part, weights, (x.float(),))
