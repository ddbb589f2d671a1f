"""What an autoencoder is trained by: distance, perceptual distance and a discriminator."""

from importlib import import_module
from typing import Any

_MODULES = {"LPIPSWithDiscriminator": "ldm.modules.losses.contperceptual"}


def __getattr__(name: str) -> Any:
    """Import the loss when it is first asked for, so that naming this package does not import torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    return getattr(import_module(module), name)
