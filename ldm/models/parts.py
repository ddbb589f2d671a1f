"""The networks that a model is made of: how large they are, where they are called, how they are named on disk."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn


@dataclass(frozen=True)
class PartSize:
    """One network of a model, its parameters, and whether they train."""

    name: str
    parameters: int
    trained: bool


@dataclass(frozen=True)
class ForwardUnit:
    """A module whose forward is called, which is where a strategy that shards weights can gather them.

    stays_whole   its own weights are needed between forward and backward, too
    precise       they are computed with as they are, whatever the run's precision
    """

    module: nn.Module
    stays_whole: bool = False
    precise: bool = False


def train_as_far_as_read(part: nn.Module, trains: bool) -> nn.Module:
    """The part, to be trained or not, but for what it says is `idle`: without a gradient it would still decay."""
    part.requires_grad_(trains)
    for idle in getattr(part, "idle", list)():
        idle.requires_grad_(False)
    return part


def translate(
    parts: Mapping[str, nn.Module], state: Mapping[str, Tensor], direction: Literal["to_disk", "from_disk"]
) -> dict[str, Tensor]:
    """Names in memory -> names on disk or back, by each part's own method; `parts` is {prefix in memory: part}."""
    rest = dict(state)
    translated: dict[str, Tensor] = {}
    for prefix, part in parts.items():
        on_disk = str(getattr(part, "disk_prefix", prefix))
        old, new = (prefix, on_disk) if direction == "to_disk" else (on_disk, prefix)
        own = {name.removeprefix(old): rest.pop(name) for name in state if name.startswith(old)}
        translated |= {new + name: tensor for name, tensor in getattr(part, direction)(own).items()}
    return translated | rest
