"""Whose numbers an EMA averages: the pieces of a model that this process holds, by canonical name."""

from collections.abc import Iterable, Mapping
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

_WRAPPERS = frozenset({"_orig_mod", "module", "_checkpoint_wrapped_module"})


@runtime_checkable
class ParameterSource(Protocol):
    """What LitEma needs to know of a model. A sharded one gives its local shards, each under the name of the whole."""

    def tensors(self) -> dict[str, Tensor]:
        """The averaged tensors as they are now: the same names, shapes and order at each call."""


@runtime_checkable
class Sharded(ParameterSource, Protocol):
    """A source whose tensors are this rank's parts of a model's; what it does is collective, in the same order."""

    def shapes(self) -> dict[str, torch.Size]:
        """The shapes of the whole tensors."""

    def whole(self, parts: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Whole tensors on the CPU of rank 0 from parts laid out as `tensors` gives them; empty on other ranks."""

    def own(self, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """This rank's parts of whole tensors."""

    def written(self) -> None:
        """The tensors were written: bring up to date what the network computes with."""


@runtime_checkable
class InHalves(ParameterSource, Protocol):
    """A source whose `tensors` the model computes with, and are the upper halves of what is averaged."""

    def halves(self) -> dict[str, Tensor]:
        """`tensors`, and lower halves beside them under names of their own: what is copied to be read later."""

    def in_full(self, halves: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The numbers to average, by the names of `tensors`, from `halves` or a copy of them."""


def read_from(source: ParameterSource) -> dict[str, Tensor]:
    """What is to be copied of a source."""
    return source.halves() if isinstance(source, InHalves) else source.tensors()


def in_full(source: ParameterSource, read: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
    """The numbers that were `read_from` a source, or a copy of what was."""
    return source.in_full(read) if isinstance(source, InHalves) else read


class LocalParameters:
    """The parameters of a module, or of a mapping by name, that require a gradient when this is built.

    They are looked up again at each call, so parameters replaced by `load_state_dict(assign=True)` are followed, and
    frozen ones stay tracked. Canonical names lack what compilation, DDP and activation checkpointing add.
    """

    def __init__(self, owner: nn.Module | Mapping[str, nn.Parameter]) -> None:
        self._owner = owner
        self._names = _canonical_names(name for name, parameter in self._named() if parameter.requires_grad)

    def tensors(self) -> dict[str, Tensor]:
        present = dict(self._named())
        if missing := [name for name in self._names.values() if name not in present]:
            present = {canonical_name(name): parameter for name, parameter in present.items()}
            if missing := [name for name in self._names if name not in present]:
                raise RuntimeError(f"{len(missing)} averaged parameters are no longer in the model ({missing[0]} ...)")
            return {canonical: present[canonical] for canonical in self._names}
        return {canonical: present[name] for canonical, name in self._names.items()}

    def _named(self) -> Iterable[tuple[str, nn.Parameter]]:
        return self._owner.named_parameters() if isinstance(self._owner, nn.Module) else self._owner.items()


def canonical_name(name: str) -> str:
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def _canonical_names(names: Iterable[str]) -> dict[str, str]:
    """Canonical name -> name; ValueError where two names share a canonical one, or where there is none at all."""
    result: dict[str, str] = {}
    for name in names:
        canonical = canonical_name(name)
        if canonical in result:
            raise ValueError(f"{result[canonical]!r} and {name!r} cannot be averaged together: both are {canonical!r}")
        result[canonical] = name
    if not result:
        raise ValueError("there is nothing to average: no parameter requires a gradient")
    return result
