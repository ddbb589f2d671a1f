"""What an object is, deep down, in plain values that can be compared: attributes, tensors, functions, closures."""

import hashlib
import inspect
import threading
import types
from collections.abc import Mapping
from datetime import timedelta
from pathlib import PurePath
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

_PLAIN = (bool, int, str, bytes, type(None))
_PASSED_OVER = (types.ModuleType, threading.Thread, type(threading.Lock()), PreTrainedTokenizerBase)
DEEPEST = 12


def described(value: Any) -> Any:
    """Equal for objects that were built alike; an object that comes again stands for its first place."""
    return _Description().of(value, 0)


class _Description:
    def __init__(self) -> None:
        self.places: dict[int, int] = {}
        self.kept: list[Any] = []  # alive, so that no id is used twice

    def of(self, value: Any, depth: int) -> Any:
        if isinstance(value, _PLAIN):
            return value
        if isinstance(value, float):
            return repr(value)
        if isinstance(value, torch.Tensor):
            return _tensor(value)
        if isinstance(value, np.ndarray):
            return value.shape, str(value.dtype), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        if isinstance(value, (PurePath, timedelta, torch.dtype, torch.device)) or inspect.isclass(value):
            return str(value)
        if id(value) in self.places:
            return "again", self.places[id(value)]
        if depth > DEEPEST or isinstance(value, _PASSED_OVER):
            return type(value).__qualname__
        self.places[id(value)] = len(self.places)
        self.kept.append(value)
        return self.parts(value, depth + 1)

    def parts(self, value: Any, depth: int) -> Any:
        if isinstance(value, Mapping):
            return [(self.of(key, depth), self.of(item, depth)) for key, item in value.items()]
        if isinstance(value, (list, tuple)):
            return [self.of(item, depth) for item in value]
        if isinstance(value, (set, frozenset)):
            return sorted(repr(self.of(item, depth)) for item in value)
        if isinstance(value, (types.FunctionType, types.MethodType)):
            return self.function(value, depth)
        if isinstance(value, torch.Generator):
            return _tensor(value.get_state())
        return type(value).__qualname__, self.of(_attributes(value), depth)

    def function(self, value: Any, depth: int) -> Any:
        """A function is its name and what it closes over, a method also its object."""
        plain = getattr(value, "__func__", value)
        cells = [_content(cell) for cell in plain.__closure__ or ()]
        return plain.__qualname__, [self.of(part, depth) for part in (*cells, getattr(value, "__self__", None))]


def _tensor(value: torch.Tensor) -> Any:
    shape = tuple(value.shape), str(value.dtype)
    if value.is_meta:
        return shape
    plain = value.detach().cpu().contiguous().flatten().view(torch.uint8) if value.numel() else value
    return (*shape, value.requires_grad, hashlib.sha256(plain.numpy().tobytes()).hexdigest())


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    found = {name: getattr(value, name, None) for name in slots if isinstance(name, str) and name != "__weakref__"}
    return {**found, **getattr(value, "__dict__", {})}
