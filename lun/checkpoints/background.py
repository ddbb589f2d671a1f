"""Writing a checkpoint while training goes on: a copy of the state, and one thread that writes one file at a time."""

import copy
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import torch
from torch import Tensor


class Background:
    """At most one file is being written, so that at most one copy of the state is held."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def write(self, save: Callable[..., None], state: dict[str, Any], *where: Any) -> "Future[None]":
        """Begin `save(copy of state, *where)`, once the file before is done; the error, if any, is in the future."""
        if self._writing is not None:
            wait([self._writing])
        self._writing = self._pool.submit(save, copied(state), *where)
        return self._writing


def copied(value: Any, storages: dict[int, torch.UntypedStorage] | None = None) -> Any:
    """A copy on the CPU that shares nothing with `value`; tensors that share memory do so in the copy, too."""
    storages = {} if storages is None else storages
    if isinstance(value, Tensor):
        return _copied_tensor(value.detach(), storages)
    if isinstance(value, dict):
        return type(value)((key, copied(item, storages)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return type(value)([copied(item, storages) for item in value])
    return copy.deepcopy(value)


def _copied_tensor(tensor: Tensor, storages: dict[int, torch.UntypedStorage]) -> Tensor:
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in storages:
        storages[storage.data_ptr()] = storage.clone() if tensor.device.type == "cpu" else storage.cpu()
    place = storages[storage.data_ptr()]
    return torch.empty(0, dtype=tensor.dtype).set_(place, tensor.storage_offset(), tensor.size(), tensor.stride())
