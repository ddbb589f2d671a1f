"""Layers with adapters that have learned something."""

from typing import Any

import torch
from torch import nn

from ldm.adapters import DoRA, LoHa, LoKr, LoRA, PiSSA
from ldm.adapters.layer import Adapter, attach

KINDS: dict[str, tuple[type[Adapter], dict[str, Any]]] = {
    "LoRA": (LoRA, {"rank": 3, "alpha": 2.0}),
    "rsLoRA": (LoRA, {"rank": 4, "alpha": 2.0, "rank_stabilized": True}),
    "PiSSA": (PiSSA, {"rank": 3, "alpha": 2.0}),
    "DoRA": (DoRA, {"rank": 3, "alpha": 2.0}),
    "LoHa": (LoHa, {"rank": 2, "alpha": 1.0}),
    "LoKr, whole": (LoKr, {"rank": 8, "alpha": 2.0}),
    "LoKr, low rank": (LoKr, {"rank": 1, "alpha": 0.5}),
}
LAYERS = {
    "linear": lambda: nn.Linear(12, 16),
    "1x1": lambda: nn.Conv2d(12, 16, 1),
    "3x3, stride 2": lambda: nn.Conv2d(12, 16, 3, stride=2, padding=1),
}


def adapted(kind: str, layer: nn.Module, **params: Any) -> Adapter:
    """A new adapter of a kind on a layer."""
    made, usual = KINDS[kind]
    adapter = made(layer, torch.Generator().manual_seed(5), **usual | params)  # type: ignore[arg-type]
    attach(layer, adapter)
    return adapter


def learned(adapter: nn.Module) -> None:
    """Move every parameter of adapters away from where it began."""
    generator = torch.Generator().manual_seed(9)
    for parameter in adapter.parameters():
        parameter.data += 0.2 * torch.randn(parameter.shape, generator=generator)


def example(layer: nn.Module) -> torch.Tensor:
    """An input of a layer of `LAYERS`."""
    shape = (5, 12) if isinstance(layer, nn.Linear) else (2, 12, 6, 6)
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))
