"""What identifies a network among all that would compute something else."""

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

WHERE_FROM = frozenset({"from_scratch", "loaded_from", "training", "unconditional"})
"""Attributes that say where weights came from, or how a network is used, not what it computes."""


def identity(network: nn.Module) -> str:
    """sha256 over structure, settings, vocabulary, precision and every weight of `network`."""
    digest = hashlib.sha256(repr(network).encode())
    for line in _settings(network):
        digest.update(line.encode())
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _settings(network: nn.Module) -> Iterator[str]:
    """Every plain attribute of every part, such as the number of heads, which weights and structure do not show."""
    for place, part in network.named_modules():
        for name, value in sorted(vars(part).items()):
            if name.startswith("_") or name in WHERE_FROM:
                continue
            if _is_plain(value):
                yield f"{place}.{name}={value!r}"
            elif hasattr(value, "get_vocab"):
                words = repr(sorted(value.get_vocab().items()))
                yield f"{place}.{name}={hashlib.sha256(words.encode()).hexdigest()}"


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
