"""The networks that a model is made of: how large they are, where they are called, how they are named on disk."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from ldm.modules.gradient_checkpointing import computes_twice
from ldm.modules.streamed_blocks import blocks_of_network, frozen_in
from ldm.training.adapters import is_of_adapter
from ldm.training.groups import Group
from ldm.training.quantised import marked_in


@dataclass(frozen=True)
class PartSize:
    """One network of a model, how many parameters it has, and how many of them train.

    precise  how many stay in float32 in every precision, as adapters' do: of those that train, and of frozen ones
    coded    how many are kept in few bits, and in how many bytes
    blocks   how many frozen ones each of its blocks has, where it has blocks that can be streamed
    computes_twice  whether its backward pass computes activations again (gradient checkpointing)
    """

    name: str
    parameters: int
    trained: int
    precise: tuple[int, int] = (0, 0)
    coded: tuple[int, int] = (0, 0)
    blocks: tuple[int, ...] = ()
    computes_twice: bool = False

    @classmethod
    def of(cls, name: str, network: nn.Module) -> "PartSize":
        sizes = [(p.numel(), p.requires_grad) for p in network.parameters()]
        precise = {p for part in network.modules() if getattr(part, "keeps_float32", False) for p in part.parameters()}
        few_bits = marked_in(network)
        precise |= {layer.bias for layer, _ in few_bits if layer.bias is not None}
        precise -= {layer.weight for layer, _ in few_bits}
        coded = [(layer.weight.numel(), kind.size(layer.weight.shape)) for layer, kind in few_bits]
        return cls(
            name,
            sum(size for size, _ in sizes),
            sum(size for size, trains in sizes if trains),
            (
                sum(p.numel() for p in precise if p.requires_grad),
                sum(p.numel() for p in precise if not p.requires_grad),
            ),
            (sum(numbers for numbers, _ in coded), sum(size for _, size in coded)),
            tuple(sum(tensor.numel() for tensor in frozen_in(block)) for block in blocks_of_network(network)),
            computes_twice(network),
        )


@dataclass(frozen=True)
class TrainingPlan:
    """The networks of a model, and what of them trains as groups of the optimizer; nothing is read for it.

    changes_base  the parameters of networks that train and are no adapter's, which could be switched off
    """

    parts: list[PartSize] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    changes_base: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ForwardUnit:
    """A module whose forward is called, which is where a strategy that shards weights can gather them.

    stays_whole   its own weights are needed between forward and backward, too
    precise       they are computed with as they are, whatever the run's precision
    """

    module: nn.Module
    stays_whole: bool = False
    precise: bool = False


def translate(
    parts: Mapping[str, nn.Module], state: Mapping[str, Tensor], direction: Literal["to_disk", "from_disk"]
) -> dict[str, Tensor]:
    """Names in memory -> names on disk or back, by each part's own method; `parts` is {prefix in memory: part}.

    Adapters keep their names: no other program's layout has a place for them.
    """
    rest = dict(state)
    state = {name: tensor for name, tensor in state.items() if not is_of_adapter(name)}
    translated: dict[str, Tensor] = {}
    for prefix, part in parts.items():
        on_disk = str(getattr(part, "disk_prefix", prefix))
        old, new = (prefix, on_disk) if direction == "to_disk" else (on_disk, prefix)
        own = {name.removeprefix(old): rest.pop(name) for name in state if name.startswith(old)}
        if own:  # parts that join tensors on disk cannot join none
            translated |= {new + name: tensor for name, tensor in getattr(part, direction)(own).items()}
    return translated | rest


def train_what_trains(part: nn.Module, mode: bool) -> None:
    """Put a part into training mode, or out of it; what lies in it without a trained parameter is out of it always."""
    for module in (part, *part.children()):
        module.train(mode and any(parameter.requires_grad for parameter in module.parameters()))
