"""Frozen networks that live in main memory and visit the device while they compute."""

from typing import Any

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.torch_internals import ignore_moves


def keep_in_main_memory(module: nn.Module, device: torch.device) -> None:
    """Let the module's weights lie on the CPU, and on `device` from the start of each forward pass to its end.

    They are frozen, so that nothing is copied back; page-locked where the device is another, so that copies run ahead
    of the computation. Raises `Fault` CFG08 where ZeRO-3 has spread them over the ranks.
    """
    held = [*module.parameters(), *module.buffers()]
    if any(hasattr(tensor, "ds_id") for tensor in held):
        raise Fault(
            "CFG08",
            "OffloadFrozen cannot be used under DeepSpeed's stage 3",
            where="lightning.callbacks: OffloadFrozen",
            why="each rank holds only its share of the frozen weights already",
            fix="leave the callback out",
        )
    homes = [_at_home(tensor.data, device) for tensor in held]
    for tensor in held:
        tensor.visits = device  # type: ignore[attr-defined]

    def arrive(*_: Any) -> None:
        for tensor, home in zip(held, homes, strict=True):
            tensor.data = _visiting(home, device)

    def leave(*_: Any) -> None:
        for tensor, home in zip(held, homes, strict=True):
            tensor.data = home

    module.register_forward_pre_hook(arrive)
    module.register_forward_hook(leave, always_call=True)
    leave()


def computes_on(module: nn.Module) -> torch.device:
    """The device that a module's weights are on while it computes, wherever they lie otherwise."""
    first = next(module.parameters())
    return getattr(first, "visits", first.device)


def stay_in_main_memory(module: nn.Module) -> None:
    """Let what moves a whole model to a device leave the module's weights where they are."""
    ignore_moves(module)


def _at_home(tensor: Tensor, device: torch.device) -> Tensor:
    home = tensor.to("cpu", copy=True)
    return home.pin_memory() if device.type == "cuda" else home


def _visiting(home: Tensor, device: torch.device) -> Tensor:
    return home.to(device, non_blocking=True, copy=True)
