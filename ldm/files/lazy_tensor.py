"""A tensor of which a process holds runs of elements, in memory or on disk; it is put together when it is needed."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ldm.torch_internals import as_a_plain_tensor, tensor_without_memory, writes_into_its_arguments

LARGE = 1 << 16  # bytes from which a tensor that every rank holds is worth sharing out


class Elements(Protocol):
    """Numbers in a row: a tensor of one dimension, or its like on disk."""

    def __len__(self) -> int: ...

    def __getitem__(self, where: slice) -> Tensor: ...


@dataclass(frozen=True)
class Run:
    """Elements of a flattened tensor, from `start` on."""

    start: int
    elements: Elements

    @property
    def end(self) -> int:
        return self.start + len(self.elements)

    @property
    def bounds(self) -> tuple[int, int]:
        return self.start, self.end


@dataclass(frozen=True)
class RunPart:
    """Some of a run's elements, which are read when they are asked for."""

    elements: Elements
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def __getitem__(self, where: slice) -> Tensor:
        start, end, _ = where.indices(len(self))
        return self.elements[self.start + start : self.start + end]


class LazyShardedTensor(Tensor):
    """Looks like a whole tensor on the CPU, of which `runs` are here.

    Names, shapes and types cost nothing. Joining and parting along the first dimension and giving another shape keep it
    as it is; whatever else torch computes with it gets the whole tensor, which is put together then and let go of
    after. Where runs are missing, because other ranks hold them, that is a RuntimeError, and so is writing into it.
    """

    runs: tuple[Run, ...]

    @staticmethod
    def __new__(cls, shape: Sequence[int], dtype: torch.dtype, runs: Sequence[Run]) -> "LazyShardedTensor":
        made: LazyShardedTensor = tensor_without_memory(cls, shape, dtype)
        made.runs = tuple(sorted((run for run in runs if len(run.elements)), key=lambda run: run.start))
        return made

    def whole(self) -> Tensor:
        """The tensor itself, in its shape, on the CPU."""
        return self.between(0, self.numel()).view(self.shape)

    def between(self, start: int, end: int) -> Tensor:
        """The flattened tensor's elements from `start` to before `end`: a view where one run holds them all."""
        pieces: list[Tensor] = []
        reached = start
        for run in self.runs:
            if run.start <= reached < min(run.end, end):
                pieces.append(run.elements[reached - run.start : min(run.end, end) - run.start].detach().cpu())
                reached = min(run.end, end)
        if reached < end:
            raise RuntimeError(f"elements {reached} to {end} of {list(self.shape)} are not held here")
        if len(pieces) == 1:
            return pieces[0]
        return torch.cat(pieces) if pieces else torch.empty(0, dtype=self.dtype)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"LazyShardedTensor({list(self.shape)}, {self.dtype}, {len(self.runs)} runs)"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _SAID_BY_ITSELF:
            with as_a_plain_tensor():
                return func(*args, **kwargs)
        kept = _KEPT_SPREAD[func](*args, **kwargs) if func in _KEPT_SPREAD else None
        if (
            isinstance(args[0], LazyShardedTensor)
            and func.__name__.endswith("_")
            and not func.__name__.startswith("__")
        ):
            raise _not_written()
        return func(*_made_whole(args), **_made_whole(kwargs)) if kept is None else kept

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """What reaches torch without its Python functions."""
        if writes_into_its_arguments(func) and isinstance(args[0], LazyShardedTensor):
            raise _not_written()
        return func(*_made_whole(args), **_made_whole(kwargs or {}))


def writable(whole: Tensor) -> LazyShardedTensor:
    """Stands for `whole`, in its shape: what joining, parting and reshaping make of it takes `write_through`."""
    return LazyShardedTensor(whole.shape, whole.dtype, [Run(0, whole.detach().reshape(-1))])


def write_through(place: LazyShardedTensor, value: Tensor) -> None:
    """Write `value`, in the shape of `place`, into the tensors of which that was made."""
    flat = value.reshape(-1)
    for run in place.runs:
        run.elements[0 : len(run.elements)].copy_(flat[run.start : run.end])


def elements_between(tensor: Tensor, start: int, end: int) -> Tensor:
    """Elements of a flattened tensor, of which no more is read where it is `LazyShardedTensor`."""
    return tensor.between(start, end) if isinstance(tensor, LazyShardedTensor) else tensor.reshape(-1)[start:end]


def share(whole: Tensor, rank: int, world_size: int, copy: bool = False) -> Tensor:
    """One rank's equal part of a tensor of any shape that all ranks hold, as `LazyShardedTensor`; a small one as it is.

    copy   of that part, for a tensor that is about to be let go of
    """
    if whole.nbytes < LARGE:
        return whole.clone() if copy else whole
    start, end = (whole.numel() * part // world_size for part in (rank, rank + 1))
    part = whole.detach().reshape(-1)[start:end]
    return LazyShardedTensor(whole.shape, whole.dtype, [Run(start, part.clone() if copy else part)])


def covers(bounds: Sequence[tuple[int, int]], count: int) -> bool:
    """Whether runs from `start` to before `end`, in order, follow each other from 0 to `count`."""
    reached = 0
    for start, end in bounds:
        if start != reached:
            return False
        reached = end
    return reached == count


def _not_written() -> RuntimeError:
    return RuntimeError("a tensor that lies in runs cannot be written")


def _made_whole(value: Any) -> Any:
    if isinstance(value, LazyShardedTensor):
        return value.whole()
    if isinstance(value, dict):
        return {key: _made_whole(item) for key, item in value.items()}
    return type(value)(map(_made_whole, value)) if type(value) in (list, tuple) else value


def _joined(tensors: Sequence[Tensor], dim: int = 0) -> LazyShardedTensor | None:
    spread = [tensor for tensor in tensors if isinstance(tensor, LazyShardedTensor)]
    if len(spread) < len(tensors) or dim != 0 or len({(t.shape[1:], t.dtype) for t in spread}) > 1:
        return None
    runs, start = [], 0
    for tensor in spread:
        runs += [Run(start + run.start, run.elements) for run in tensor.runs]
        start += tensor.numel()
    shape = [sum(tensor.shape[0] for tensor in spread), *spread[0].shape[1:]]
    return LazyShardedTensor(shape, spread[0].dtype, runs)


def _narrowed(tensor: LazyShardedTensor, dim: int, start: int, length: int) -> LazyShardedTensor | None:
    if dim != 0 or start < 0 or start + length > tensor.shape[0]:
        return None
    row = math.prod(tensor.shape[1:])
    begin, end = start * row, (start + length) * row
    cuts = [(run, max(run.start, begin), min(run.end, end)) for run in tensor.runs]
    runs = [Run(a - begin, RunPart(run.elements, a - run.start, b - run.start)) for run, a, b in cuts if a < b]
    return LazyShardedTensor([length, *tensor.shape[1:]], tensor.dtype, runs)


def _reshaped(tensor: LazyShardedTensor, *shape: Any) -> LazyShardedTensor | None:
    sizes = list(shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = tensor.numel() // math.prod(size for size in sizes if size != -1)
    return LazyShardedTensor(sizes, tensor.dtype, tensor.runs) if math.prod(sizes) == tensor.numel() else None


def _with_sides_of_one(tensor: LazyShardedTensor, index: Any) -> LazyShardedTensor | None:
    """`tensor[:, :, None, None]` or `tensor[..., None, None]`, as a matrix becomes a 1x1 convolution."""
    index = index if isinstance(index, tuple) else (index,)
    if index[0] is Ellipsis:
        index = (*[slice(None)] * tensor.dim(), *index[1:])
    sides = [entry for entry in index if entry is not None]
    if any(not isinstance(entry, slice) or entry != slice(None) for entry in sides) or len(sides) != tensor.dim():
        return None
    sizes = iter(tensor.shape)
    return LazyShardedTensor([1 if entry is None else next(sizes) for entry in index], tensor.dtype, tensor.runs)


_KEPT_SPREAD: dict[Any, Callable[..., LazyShardedTensor | None]] = {
    torch.cat: _joined,
    Tensor.narrow: _narrowed,
    Tensor.reshape: _reshaped,
    Tensor.view: _reshaped,
    Tensor.__getitem__: _with_sides_of_one,
    Tensor.detach: lambda tensor: tensor,
}

_PROPERTIES = ["shape", "dtype", "device", "layout", "ndim", "is_meta", "is_cpu", "is_cuda", "is_sparse", "is_nested"]
_PROPERTIES += ["nbytes", "itemsize", "requires_grad", "grad_fn", "is_leaf", "is_quantized"]
_SAID_BY_ITSELF = {getattr(Tensor, name).__get__ for name in _PROPERTIES} | {
    Tensor.size,
    Tensor.dim,
    Tensor.ndimension,
    Tensor.numel,
    Tensor.nelement,
    Tensor.element_size,
    Tensor.is_floating_point,
    Tensor.is_complex,
    Tensor.__len__,
    Tensor.__hash__,
}
