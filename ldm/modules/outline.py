"""Networks by shape: the tree of a network's modules as plain values, and modules without memory made of these.

A plan has to know what a network's parameters are called, how large they are and in which layers they lie. Building the
network to find out imports its library, which takes longer than torch; a tree of plain values can be remembered.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ldm.admission import admitted
from ldm.torch_internals import entries_of

Outline = dict[str, Any]
REAL = ("torch.nn.", "ldm.")
"""Packages whose classes stand in an outline for themselves: layers, and the networks that say what they are to us."""
OWN = frozenset(vars(nn.Module()))
"""What torch keeps in every module."""


def outline_of(network: nn.Module) -> Outline:
    """Plain values from which `from_outline` makes a network of the same names, shapes and settings.

    Of a module count its class, its attributes that are plain values, its parameters, buffers and children; whatever is
    held in common by several places stays common.
    """
    modules, tensors, kinds = _Numbered(), _Numbered(), _Numbered()
    described = [_described(module, modules, tensors, kinds) for module in modules.from_root(network)]
    classes, empty = [_described_class(kind) for kind in kinds.all], [_described_tensor(one) for one in tensors.all]
    return {"classes": classes, "tensors": empty, "modules": described}


def from_outline(outline: Outline) -> nn.Module:
    """The network that an outline describes, its tensors on the meta device; it computes nothing.

    Layers of torch and modules of this project are of their own classes, with their methods and plain attributes. Those
    of other libraries are of classes by the same name that have the plain attributes of these, and no methods.
    """
    tensors = [_empty(*tensor) for tensor in outline["tensors"]]
    kinds = [_class(**kind) for kind in outline["classes"]]
    made = [_bare(kinds[one["class"]]) for one in outline["modules"]]
    for module, one in zip(made, outline["modules"], strict=True):
        module.training = one["training"]
        vars(module).update((name, _untagged(value)) for name, value in one["attributes"].items())
        for name, number in one["parameters"].items():
            module.register_parameter(name, None if number is None else tensors[number])
        for name, (number, persistent) in one["buffers"].items():
            module.register_buffer(name, None if number is None else tensors[number], persistent)
        for name, number in one["children"].items():
            module.register_module(name, None if number is None else made[number])
    return made[0]


class _Numbered:
    """Objects by number, each once."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, thing: Any) -> int | None:
        if thing is None:
            return None
        if id(thing) not in self._numbers:
            self._numbers[id(thing)] = len(self.all)
            self.all.append(thing)
        return self._numbers[id(thing)]

    def from_root(self, root: nn.Module) -> Any:
        """All that get a number, those included that get it meanwhile."""
        self.number(root)
        place = 0
        while place < len(self.all):
            yield self.all[place]
            place += 1


def _described(module: nn.Module, modules: _Numbered, tensors: _Numbered, kinds: _Numbered) -> dict[str, Any]:
    held = entries_of(module)
    return {
        "class": kinds.number(type(module)),
        "training": module.training,
        "attributes": _plain(vars(module)),
        "parameters": {name: tensors.number(one) for name, one in held.parameters.items()},
        "buffers": {name: (tensors.number(one), name not in held.transient) for name, one in held.buffers.items()},
        "children": {name: modules.number(one) for name, one in held.children.items()},
    }


def _described_class(kind: type) -> dict[str, Any]:
    """The first of a class and its bases that is of torch or of this project, and what those before it add to it."""
    place = next(place for place, base in enumerate(kind.__mro__) if f"{base.__module__}.".startswith(REAL))
    real, added = kind.__mro__[place], [_plain(vars(base)) for base in kind.__mro__[:place]]
    attributes = {name: value for one in reversed(added) for name, value in one.items()}
    return {"name": kind.__name__, "base": f"{real.__module__}.{real.__qualname__}", "attributes": attributes}


def _class(name: str, base: str, attributes: dict[str, Any]) -> type[nn.Module]:
    if not base.startswith(REAL):
        raise ValueError(f"{base} is no class of an outline")
    kind: type[nn.Module] = admitted(base)
    values = {name: _untagged(value) for name, value in attributes.items()}
    return kind if kind.__name__ == name else type(name, (kind,), values)


def _bare(kind: type[nn.Module]) -> nn.Module:
    module = kind.__new__(kind)
    nn.Module.__init__(module)
    return module


def _described_tensor(tensor: Tensor) -> tuple[list[int], str, bool, bool]:
    name = str(tensor.dtype).removeprefix("torch.")
    return list(tensor.shape), name, isinstance(tensor, nn.Parameter), tensor.requires_grad


def _empty(shape: list[int], dtype: str, is_parameter: bool, requires_grad: bool) -> Tensor:
    tensor = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    return nn.Parameter(tensor, requires_grad=requires_grad) if is_parameter else tensor


def _plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Those among attributes that are plain values and not torch's or private."""
    own = {name: value for name, value in attributes.items() if name not in OWN and not name.startswith("_")}
    return {name: _tagged(value) for name, value in own.items() if _is_plain(value)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        return type(value) is dict and all(type(key) is str and _is_plain(item) for key, item in value.items())
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def _tagged(value: Any) -> Any:
    """A plain value as JSON can give it back: a tuple is a map of one key, a list or map holds values so treated."""
    if type(value) is tuple:
        return {"tuple": [_tagged(item) for item in value]}
    if type(value) is list:
        return [_tagged(item) for item in value]
    return {"map": {key: _tagged(item) for key, item in value.items()}} if type(value) is dict else value


def _untagged(value: Any) -> Any:
    if type(value) is list:
        return [_untagged(item) for item in value]
    if type(value) is not dict:
        return value
    if "tuple" in value:
        return tuple(_untagged(item) for item in value["tuple"])
    return {key: _untagged(item) for key, item in value["map"].items()}
