"""What an autoencoder is trained by: distance, perceptual distance and a discriminator."""

from typing import Any


def __getattr__(name: str) -> Any:
    """Import the loss when it is first asked for, so that naming this package does not import torch."""
    if name != "LPIPSWithDiscriminator":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from ldm.modules.losses.contperceptual import LPIPSWithDiscriminator

    return LPIPSWithDiscriminator
