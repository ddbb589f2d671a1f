"""What a dataset may offer beyond its examples, all of it without opening a picture.

sizes()        (n, 2) integers: width and height of each picture, upright
repeats()      (n,) integers: how often each is read in one epoch
weights()      (n,) numbers: how much each counts in the loss; None: all alike
path(index)    the file of one picture, for messages
example(index, draws, size=None)   cut to size (width, height) where one is asked for
placement(index, flipped, size=None)   `original_size`, `crop` and `target_size` of one example, for those from a cache
fingerprint()  what tells the dataset from another
"""

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.order.law import Size


class Offers:
    """The optional side of a dataset's contract; raises `Fault` DAT08 where what is offered makes no sense."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        self.draws_itself = hasattr(dataset, "example")
        self.cuts = self.draws_itself and "size" in inspect.signature(dataset.example).parameters
        self._sizes: np.ndarray | None = None

    @property
    def name(self) -> str:
        return f"{type(self.dataset).__module__}.{type(self.dataset).__qualname__}"

    def read(self, index: int, draws: Draws, size: Size | None) -> Mapping[str, Any]:
        if not self.draws_itself:
            found: Mapping[str, Any] = self.dataset[index]
        elif size is None:
            found = self.dataset.example(index, draws)
        else:
            found = self.dataset.example(index, draws, size=size)
        return found

    def sizes(self) -> np.ndarray:
        """(n, 2) width and height. Raises `Fault` CFG08 if the dataset cannot serve buckets."""
        if not self.cuts or not hasattr(self.dataset, "sizes"):
            raise Fault(
                "CFG08",
                f"{self.name} cannot be read in buckets",
                where="data.params.buckets",
                why="buckets need a data set with sizes() and example(index, draws, size=None)",
                fix="data.params.buckets=null",
            )
        if self._sizes is None:
            # 0 says that a file cannot be read: it is put with the squares, and replaced when it comes up.
            self._sizes = np.maximum(self._column("sizes", (len(self.dataset), 2), 0), 1)
        return self._sizes

    def repeats(self) -> np.ndarray | None:
        """(n,) int64, or None where every example is read once."""
        if not hasattr(self.dataset, "repeats"):
            return None
        times = self._column("repeats", (len(self.dataset),), 1)
        return None if (times == 1).all() else times

    def weights(self) -> np.ndarray | None:
        """(n,) float32, or None where all count alike."""
        if not hasattr(self.dataset, "weights") or self.dataset.weights() is None:
            return None
        return self._column("weights", (len(self.dataset),), 0).astype(np.float32)

    def path(self, index: int) -> str:
        """A name for one example: its file where the dataset tells it."""
        return str(self.dataset.path(index)) if hasattr(self.dataset, "path") else f"example {index}"

    def _column(self, name: str, shape: tuple[int, ...], least: int) -> np.ndarray:
        found = np.asarray(getattr(self.dataset, name)())
        if found.shape != shape or not np.isfinite(found).all() or (found < least).any():
            raise Fault(
                "DAT08",
                f"{name}() of the dataset makes no sense",
                where=self.name,
                why=f"shape {found.shape}, least value {found.min() if found.size else 'none'}",
                fix=f"return {shape} finite numbers of at least {least}",
            )
        return found if name == "weights" else found.astype(np.int64)
