"""A device that is none: tensors on `meta` whose numbers lie on the CPU, and a count of who asks for them."""

import traceback
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_map

ROOT = Path(__file__).parents[2]
DEVICE = torch.device("meta")
aten = torch.ops.aten
READS = (aten._local_scalar_dense.default, aten.is_nonzero.default, aten.equal.default, aten.nonzero.default)


class There(Tensor):
    """A tensor on the device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "There":
        layout = {"strides": inner.stride(), "storage_offset": inner.storage_offset(), "dtype": inner.dtype}
        made: There = Tensor._make_wrapper_subclass(cls, inner.size(), **layout, device=DEVICE)
        made.inner = inner
        return made

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError("a tensor of the device outlived it")


class Built(TorchFunctionMode):
    """`torch.tensor(numbers, device=...)`, which comes by no dispatch mode where there is nothing to compute."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.tensor and kwargs.get("device") is not None and torch.device(kwargs["device"]) == DEVICE:
            return func(*args, **{**kwargs, "device": "cpu"}).to(DEVICE)
        return func(*args, **kwargs)


class PretendDevice(TorchDispatchMode):
    """While it is active `meta` computes; `reads` counts, by the file of ours that asked, what the host waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        there = tree_any(lambda one: isinstance(one, There), (args, kwargs))
        asked = torch.device(kwargs["device"]).type if kwargs.get("device") is not None else ""
        fetched = func is aten.copy_.default and not isinstance(args[0], There) and not any(args[2:])  # not waited for
        brought = asked == DEVICE.type and not there and func is aten._to_copy.default
        waits = brought and not kwargs.get("non_blocking")  # as a copy from pageable memory does
        if waits or (there and (func in READS or asked == "cpu" or fetched)):
            self.reads[_asker()] += 1
        if asked == DEVICE.type:
            kwargs["device"] = torch.device("cpu")
        result = func(*tree_map(_inner, args), **tree_map(_inner, kwargs))
        if func._schema.name.endswith("_") and result is not None:  # of lists such an operation returns nothing
            return args[0]
        goes_there = asked == DEVICE.type or (there and asked != "cpu")
        return tree_map(lambda one: There(one) if goes_there and isinstance(one, Tensor) else one, result)


def _inner(one: Any) -> Any:
    return one.inner if isinstance(one, There) else one


def _asker() -> str:
    for frame in reversed(traceback.extract_stack()):
        for package in ("ldm", "lun"):
            if Path(frame.filename).is_relative_to(ROOT / package):
                return str(Path(frame.filename).relative_to(ROOT))
    return "others"
