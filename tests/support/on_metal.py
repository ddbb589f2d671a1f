"""Tensors that behave as on an Apple GPU, which no test machine has: there is no float64 there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class OnMetal(Tensor):
    """A tensor of the host that says it is elsewhere; what is computed with it is so as well, until `cpu`."""

    @property
    def device(self) -> torch.device:
        return torch.device("mps")

    @device.setter
    def device(self, device: torch.device) -> None:
        raise AttributeError(device)

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        return self.as_subclass(Tensor)

    def double(self, *_: Any, **__: Any) -> Tensor:
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")


def on_metal(tensor: Tensor) -> Tensor:
    """The same numbers there."""
    return tensor.as_subclass(OnMetal)
