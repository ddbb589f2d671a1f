"""A two-way table between a module's key names and those of the files that hold its weights."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ldm.files.state import State


@dataclass(frozen=True)
class KeyTable:
    """`names` maps a library module's keys to those on disk; the module itself is held as the attribute `attribute`.

    A key that the table does not know keeps its name in both directions, so that nothing is lost on the way and
    a comparison of key sets can name it. Tensors on the meta device and those that lie spread over files stay so.

    attribute  empty where the library's keys are the owner's
    aliases    old spellings of the library's keys
    joins      key on disk -> the library's keys whose tensors lie there one after the other along the first dimension,
               all of the same length; where one of them is absent, the others keep their names
    swaps      the library's keys of which the two halves lie on disk in the other order
    """

    names: Mapping[str, str]
    attribute: str
    aliases: Mapping[str, str] = field(default_factory=dict)
    joins: Mapping[str, Sequence[str]] = field(default_factory=dict)
    swaps: Set[str] = frozenset()

    def to_disk(self, state: State) -> State:
        """Keys of the owner (`network.conv_in.weight`) to keys on disk (`input_blocks.0.0.weight`)."""
        names = {self._owned(key): name for key, name in self.names.items()}
        swaps = {self._owned(key) for key in self.swaps}
        joined = {name: [self._owned(key) for key in keys] for name, keys in self.joins.items()}
        joined = {name: keys for name, keys in joined.items() if all(key in state for key in keys)}
        inside = {key for keys in joined.values() for key in keys}
        rest = {key: value for key, value in state.items() if key not in inside}
        renamed = {names.get(key, key): _swapped(value) if key in swaps else value for key, value in rest.items()}
        return renamed | {name: torch.cat([state[key] for key in keys]) for name, keys in joined.items()}

    def from_disk(self, state: State) -> State:
        """Keys on disk, of the library's module or of the owner to keys of the owner."""
        keys = {name: key for key, name in self.names.items()} | {key: key for key in self.names}
        keys |= {key: key for parts in self.joins.values() for key in parts} | dict(self.aliases)
        swaps = {self.names[key] for key in self.swaps}
        renamed: State = {}
        for key, value in state.items():
            parts = self.joins.get(key, ())
            if parts and value.ndim and value.shape[0] % len(parts) == 0:
                renamed |= zip(map(self._owned, parts), _parted(value, len(parts)), strict=True)
            else:
                own = self._owned(keys[key]) if key in keys else key
                renamed[own] = _swapped(value) if key in swaps else value
        return renamed

    def _owned(self, key: str) -> str:
        return f"{self.attribute}.{key}" if self.attribute else key


def _parted(value: Tensor, count: int) -> list[Tensor]:
    """`value` in `count` equal parts along its first dimension, as views."""
    length = value.shape[0] // count
    return [value.narrow(0, length * number, length) for number in range(count)]


def _swapped(value: Tensor) -> Tensor:
    """`value` with the halves of its first dimension exchanged; one that has no halves as it is."""
    return torch.cat(_parted(value, 2)[::-1]) if value.ndim and value.shape[0] % 2 == 0 else value
