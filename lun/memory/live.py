"""Bytes that are alive: every tensor that operations make, from when its memory is taken until it is given back."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from ldm.torch_internals import TorchDispatchMode, identity_of, tree_leaves


class LiveBytes(TorchDispatchMode):
    """Within it, `now` and `peak` are the bytes of the memory of tensors that were made in it or `adopt`ed.

    Works with fake tensors, which have sizes and lifetimes but no memory. What autograd keeps for the backward pass is
    alive as long as it keeps it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.adopt(made)
        return made

    def adopt(self, made: Any) -> None:
        """Count the memory of all tensors in a structure."""
        for leaf in tree_leaves(made):
            if isinstance(leaf, Tensor) and not leaf.is_sparse:
                self._count(leaf)

    @contextmanager
    def phase(self) -> Iterator[Callable[[], int]]:
        """Within it, calling what it gives returns the peak since it began."""
        outer, self.peak = self.peak, self.now
        try:
            yield lambda: self.peak
        finally:
            self.peak = max(outer, self.peak)

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        identity, size = identity_of(storage), storage.nbytes()
        if identity in self._known or size == 0:
            return
        self._known.add(identity)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._freed, identity, size)

    def _freed(self, identity: int, size: int) -> None:
        self._known.discard(identity)
        self.now -= size
