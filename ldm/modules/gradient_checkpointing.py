"""Gradient checkpointing as libraries' networks have it: activations computed twice instead of kept.

Chen et al. 2016, arXiv 1604.06174. A module that can has an attribute `gradient_checkpointing`, which says whether it
does; its network has the method that turns it on.
"""

from torch import nn

_TURN_ON = ("enable_gradient_checkpointing", "gradient_checkpointing_enable")  # diffusers, transformers


def can_compute_twice(module: nn.Module) -> bool:
    """Whether it computes members of its lists twice, once that is turned on."""
    return hasattr(module, "gradient_checkpointing")


def computes_twice(network: nn.Module) -> bool:
    """Whether anything in a network does."""
    return any(getattr(module, "gradient_checkpointing", False) is True for module in network.modules())


def compute_twice(model: nn.Module) -> None:
    """Let every library's network in `model` that trains do so."""
    for module in model.modules():
        method = next((getattr(module, name) for name in _TURN_ON if hasattr(module, name)), None)
        if method is not None and any(parameter.requires_grad for parameter in module.parameters()):
            method()
