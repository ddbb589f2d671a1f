"""Weights into a module, all of them or none: key sets and shapes are compared before anything is copied."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.files.state import State


@runtime_checkable
class OnDisk(Protocol):
    """A module that knows the names under which its tensors lie on disk, without the prefix of its part."""

    def to_disk(self, state: State) -> State: ...

    def from_disk(self, state: State) -> State: ...


@runtime_checkable
class Derives(Protocol):
    """A module with tensors that follow from its settings, so that files may lack them."""

    def derived(self, names: Set[str], device: torch.device) -> State:
        """Those of the tensors `names`, on `device`."""
        ...


@dataclass(frozen=True)
class Report:
    """What `load_part` did: how many tensors came from `source`, and which were left alone on request."""

    source: str
    loaded: int
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """How the tensors that were found fit those that are wanted."""

    matching: int
    misshapen: tuple[str, ...]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return not (self.misshapen or self.missing or self.unexpected)

    def render(self) -> str:
        counts = f"{self.matching + len(self.misshapen)} tensors compared: {self.matching} match, "
        counts += f"{len(self.misshapen)} have another shape; "
        counts += f"{len(self.missing)} missing, {len(self.unexpected)} unexpected"
        firsts = {"other shape": self.misshapen, "missing": self.missing, "unexpected": self.unexpected}
        return "\n".join([counts, *(f"first {name}: {keys[0]}" for name, keys in firsts.items() if keys)])


def load_part(module: nn.Module, state: State, source: str, ignore: Sequence[str] = ()) -> Report:
    """Fill `module` with `state`, whose keys are the module's own or, if it is `OnDisk`, those of a file.

    Every parameter and buffer must be there with its shape; a 1x1 convolution and a linear layer hold the same weights.
    Keys that begin with one of `ignore` are neither loaded nor asked for. Dtypes stay the module's; parameters on the
    meta device become real copies on the CPU. `source` names the file in messages.
    Raises `Fault` MOD03 if anything is missing, unexpected or of another shape; the module is then unchanged.
    """
    renamed, comparison = fit(module, state, ignore)
    if not comparison.fits:
        raise Fault(
            "MOD03",
            f"{source} does not fit this model",
            why=comparison.render(),
            fix="use the config that the file was made with, or a checkpoint of the model that the config builds",
        )
    refuse_nonfinite(renamed, source)
    _fill(module, renamed)
    return Report(source, len(renamed), tuple(key for key in state if key.startswith(tuple(ignore))))


def fit(module: nn.Module, state: State, ignore: Sequence[str] = ()) -> tuple[State, Comparison]:
    """`state` under the module's own names and in its shapes, and how it compares with what the module holds.

    What is not there and follows from the module's settings comes from its `derived`, if it has that.
    Works on the meta device as well, where names and shapes are all there is.
    """
    ignored = {key for key in state if key.startswith(tuple(ignore))}
    excused = _own_names(module, {key: state[key] for key in ignored}) if ignored else {}
    renamed = _own_names(module, {key: value for key, value in state.items() if key not in ignored})
    wanted = {key: value for key, value in module.state_dict().items() if key not in excused}
    if renamed and isinstance(module, Derives):
        renamed |= module.derived(wanted.keys() - renamed.keys(), next(iter(renamed.values())).device)
    renamed = {key: fitted(value, wanted.get(key)) for key, value in renamed.items()}
    return renamed, compare(renamed, wanted)


def refuse_nonfinite(state: State, source: str) -> None:
    """Raise `Fault` MOD02 if any of the weights is NaN or infinite, and say which."""
    bad = [key for key, value in state.items() if value.is_floating_point() and not is_finite(value)]
    if bad:
        kinds = "NaN" if any(state[key].isnan().any() for key in bad) else "infinite numbers"
        raise Fault(
            "MOD02",
            f"{source} holds broken weights: {kinds} in {len(bad)} of {len(state)} tensors",
            why=f"first {bad[0]}; the training that wrote it had diverged, or it was cut down to 16 bits too coarsely",
            fix="take an earlier checkpoint of the same training, or download the file again",
        )


def is_finite(value: Tensor) -> bool:
    """Whether all numbers, in any shape, are: a sum in doubles, which reads them once, is so if each is."""
    return bool(value.sum(dtype=torch.float64).isfinite())


def compare(given: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> Comparison:
    """Compare two states by name and shape; both have the same kind of keys."""
    shared = [key for key in wanted if key in given]
    misshapen = [key for key in shared if given[key].shape != wanted[key].shape]
    return Comparison(
        matching=len(shared) - len(misshapen),
        misshapen=tuple(f"{key} {list(given[key].shape)} != {list(wanted[key].shape)}" for key in misshapen),
        missing=tuple(key for key in wanted if key not in given),
        unexpected=tuple(key for key in given if key not in wanted),
    )


def _own_names(module: nn.Module, state: State) -> State:
    return module.from_disk(state) if isinstance(module, OnDisk) else state


def fitted(value: Tensor, target: Tensor | None) -> Tensor:
    """`value` in the shape of `target` if they differ by sides of 1 alone, as a 1x1 convolution and a matrix do."""
    same = target is not None and _without_trailing_ones(value) == _without_trailing_ones(target)
    return value.reshape(target.shape) if same and target is not None else value


def _without_trailing_ones(value: Tensor) -> list[int]:
    shape = list(value.shape)
    while shape and shape[-1] == 1:
        shape.pop()
    return shape


def _fill(module: nn.Module, state: State) -> None:
    own = module.state_dict()
    on_meta = any(value.is_meta for value in own.values())
    if on_meta:  # a copy, since tensors read lazily stay tied to their file
        state = {key: value.to(own[key].dtype, copy=True) for key, value in state.items()}
    with torch.no_grad():
        module.load_state_dict(state, strict=False, assign=on_meta)
    tensors = [*module.named_parameters(), *module.named_buffers()]
    left = [name for name, value in tensors if value.is_meta]
    if left:
        raise RuntimeError(f"{len(left)} tensors are still without memory, first {left[0]}")
