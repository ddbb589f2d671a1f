"""The order of examples: which one lies at each place of the endless sequence, as a law that needs no memory."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ldm.diffusion.draws import key

Size = tuple[int, int]
"""(width, height) in pixels."""


class Key(NamedTuple):
    """What a loader reads: the key of an example's random draws, which example it is, at what size, and when.

    Without a size the dataset decides. `step` is how many optimizer steps training has completed, None outside of it.
    """

    slot: int
    example: int
    size: Size | None = None
    step: int | None = None


class Law(Protocol):
    """An endless sequence of examples that can be asked for any place of it at any time.

    n  examples of one epoch, repeats counted
    """

    n: int

    def key(self, place: int) -> Key:
        """What to read at `place`, counted in examples consumed over all ranks."""

    def epoch(self, place: int) -> int:
        """The epoch that `place` lies in."""

    def start_of(self, epoch: int) -> int:
        """The first place of `epoch`."""

    def beginning(self, place: int) -> int:
        """Where reading may begin: `place`, or the beginning of the batch that it lies in."""

    def another(self, key: Key, attempt: int) -> int:
        """The index of an example to read in place of one that cannot be read; it follows from the slot alone."""


class Shuffles:
    """A permutation of `n` places for each epoch, keyed by (seed, epoch, what); two are kept (8 n bytes each)."""

    def __init__(self, n: int, seed: int, *what: int) -> None:
        self.n = n
        self.seed = seed
        self.what = what
        self.kept: dict[int, Tensor] = {}

    def __call__(self, epoch: int, place: int) -> int:
        if epoch not in self.kept:
            while len(self.kept) > 1:
                del self.kept[min(self.kept)]
            generator = torch.Generator().manual_seed(key(self.seed, "order", epoch, *self.what))
            self.kept[epoch] = torch.randperm(self.n, generator=generator)
        return int(self.kept[epoch][place])


class Order:
    """The endless sequence of a dataset, shuffled anew in every epoch; the slot is the place itself.

    examples  how many there are, or the index of each (an index that stands there three times is read three times)
    shuffles  (epoch, number in the epoch) -> place among `examples`, where another law than `Shuffles` is wanted
    """

    def __init__(
        self,
        examples: int | Sequence[int] | np.ndarray,
        seed: int,
        shuffle: bool = True,
        shuffles: Callable[[int, int], int] | None = None,
    ) -> None:
        self.examples = range(examples) if isinstance(examples, int) else examples
        self.n = len(self.examples)
        if self.n < 1:
            raise ValueError(f"a sequence needs at least one example, got {self.n}")
        self.seed = seed
        self.shuffle = shuffle
        self.shuffles = shuffles or Shuffles(self.n, seed)

    def key(self, place: int) -> Key:
        epoch, turn = divmod(place, self.n)
        return Key(place, int(self.examples[self.shuffles(epoch, turn) if self.shuffle else turn]))

    def epoch(self, place: int) -> int:
        return place // self.n

    def start_of(self, epoch: int) -> int:
        return epoch * self.n

    def beginning(self, place: int) -> int:
        return place

    def another(self, key: Key, attempt: int) -> int:
        return int(self.examples[drawn(self.seed, key, attempt, self.n)])


def drawn(seed: int, of: Key, attempt: int, n: int) -> int:
    """A number below `n` that follows from the slot and how often it was tried."""
    return key(seed, "replacement", of.slot, attempt) % n
