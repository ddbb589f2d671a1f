"""The position law: which example each slot of the endless sequence holds, and which slots a rank reads.

Step s, micro-batch a, rank r, lane j reads slot s*GB + a*(W*mb) + r*mb + j, where mb is the batch size of a rank, W the
number of ranks and GB = accumulate*W*mb. Nothing is dropped or padded: a batch may straddle two epochs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import torch
from torch import Tensor
from torch.utils.data import Sampler

from ldm.diffusion.draws import key
from ldm.position import Position

Key = tuple[int, int]
"""(slot, index): the key of an example's random draws, and which example of the dataset it is."""


@dataclass(frozen=True)
class Window:
    """The examples of one optimizer step: `accumulate` micro-batches of `batch_size` on each of `world_size` ranks."""

    batch_size: int
    accumulate: int = 1
    world_size: int = 1
    rank: int = 0

    @property
    def global_batch(self) -> int:
        """Examples of one optimizer step over all ranks and micro-batches."""
        return self.batch_size * self.accumulate * self.world_size

    def slots(self, start: int, micro: int) -> range:
        """What this rank reads in micro-batch `micro` after slot `start`, counted on into later windows."""
        first = start + (micro * self.world_size + self.rank) * self.batch_size
        return range(first, first + self.batch_size)


def max_steps_for_epochs(max_epochs: int, n: int, global_batch: int) -> int:
    """Optimizer steps after which each of `n` examples was read at least `max_epochs` times."""
    return -(-max_epochs * n // global_batch)


class Order:
    """The endless sequence of a dataset of `n` examples, shuffled anew in every epoch by a key of (seed, epoch).

    A stateless law: any slot can be asked for at any time. The permutations of two epochs are kept (8 n bytes each).
    """

    def __init__(self, n: int, seed: int, shuffle: bool = True) -> None:
        if n < 1:
            raise ValueError(f"a sequence needs at least one example, got {n}")
        self.n = n
        self.seed = seed
        self.shuffle = shuffle
        self._kept: dict[int, Tensor] = {}

    def __call__(self, slot: int) -> Key:
        """(epoch, index of the example) at `slot`."""
        epoch, place = divmod(slot, self.n)
        return epoch, int(self._permutation(epoch)[place]) if self.shuffle else place

    def _permutation(self, epoch: int) -> Tensor:
        if epoch not in self._kept:
            while len(self._kept) > 1:
                del self._kept[min(self._kept)]
            generator = torch.Generator().manual_seed(key(self.seed, "order", epoch))
            self._kept[epoch] = torch.randperm(self.n, generator=generator)
        return self._kept[epoch]


class PositionBatchSampler(Sampler[list[Key]]):
    """Batches of this rank without end, from where `position` stands when the iteration begins.

    `total_batches` is the length that Lightning is told, since without one it reads a batch ahead of the first step.
    """

    def __init__(self, order: Order, window: Window, position: Position, total_batches: int) -> None:
        self.order = order
        self.window = window
        self.position = position
        self.total_batches = total_batches

    def __len__(self) -> int:
        return self.total_batches

    def __iter__(self) -> Iterator[list[Key]]:
        return self._from(self.position.slot)  # read now: a generator's own body would read it at the first batch

    def _from(self, start: int) -> Iterator[list[Key]]:
        for micro in count():
            yield [(slot, self.order(slot)[1]) for slot in self.window.slots(start, micro)]


class OnceBatchSampler(Sampler[list[Key]]):
    """Every example exactly once over the ranks, which take turns: rank r has r, r + W, r + 2W ... of the order.

    The slot is the example's own index, so that it meets the same draws at every validation. The last batch may be
    short, and ranks may differ by one batch.
    """

    def __init__(self, order: Order, window: Window) -> None:
        self.order = order
        self.turns = range(window.rank, order.n, window.world_size)
        self.batch_size = window.batch_size

    def __len__(self) -> int:
        return -(-len(self.turns) // self.batch_size)

    def __iter__(self) -> Iterator[list[Key]]:
        for first in range(0, len(self.turns), self.batch_size):
            indices = [self.order(turn)[1] for turn in self.turns[first : first + self.batch_size]]
            yield [(index, index) for index in indices]
