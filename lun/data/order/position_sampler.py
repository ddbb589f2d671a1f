"""Which places of the endless sequence a rank reads, batch by batch.

Step s, micro-batch a, rank r, lane j reads place s*GB + a*(W*mb) + r*mb + j, where mb is a rank's batch size, W the
number of ranks and GB = accumulate*W*mb. Nothing is dropped or padded: a batch may straddle two epochs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from torch.utils.data import Sampler

from ldm.position import Position
from lun.data.order.bucketed import BucketOrder, bucket_slot
from lun.data.order.law import Key, Law, Order


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

    def places(self, start: int, micro: int) -> range:
        """What this rank reads in micro-batch `micro` after place `start`, counted on into later windows."""
        first = start + (micro * self.world_size + self.rank) * self.batch_size
        return range(first, first + self.batch_size)


class PositionBatchSampler(Sampler[list[Key]]):
    """Batches of this rank without end, from where `position` stands when the iteration begins.

    `total_batches` is the length that Lightning is given, since without one it reads a batch ahead of the first step.
    """

    def __init__(self, order: Law, window: Window, position: Position, total_batches: int) -> None:
        self.order = order
        self.window = window
        self.position = position
        self.total_batches = total_batches

    def __len__(self) -> int:
        return self.total_batches

    def __iter__(self) -> Iterator[list[Key]]:
        # Read now: a generator's own body would read the position at the first batch.
        return self._from(self.order.beginning(self.position.slot), self.position.step)

    def _from(self, start: int, step: int) -> Iterator[list[Key]]:
        for micro in count():
            at = step + micro // self.window.accumulate
            yield [self.order.key(place)._replace(step=at) for place in self.window.places(start, micro)]


UNCOUNTED = -1
"""The slot of an example that only fills up: ranks that share out weights have to compute equally many batches."""


class OnceBatchSampler(Sampler[list[Key]]):
    """Every example exactly once over the ranks, which take turns: rank r has r, r + W, r + 2W ... of the order.

    The slot is the example's own index, so that it meets the same draws at every validation. The last batch may be
    short. A rank that is out of examples before the others gets a batch that does not count (`UNCOUNTED`).
    """

    def __init__(self, order: Order, window: Window) -> None:
        self.order = order
        self.turns = range(window.rank, order.n, window.world_size)
        self.batch_size = window.batch_size
        of_first_rank = -(-order.n // window.world_size)
        self.batches = -(-of_first_rank // self.batch_size)

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[Key]]:
        for first in range(0, len(self.turns), self.batch_size):
            indices = [self.order.key(turn).example for turn in self.turns[first : first + self.batch_size]]
            yield [Key(index, index) for index in indices]
        if -(-len(self.turns) // self.batch_size) < self.batches:
            yield [Key(UNCOUNTED, self.order.key(0).example)]


class OnceByBucketSampler(Sampler[list[Key]]):
    """Every example exactly once at each of its sizes, one size a batch; the ranks take turns with whole batches.

    The slot follows from size and index, so that an example meets the same draws at every validation. As in
    `OnceBatchSampler`, all ranks have equally many batches.
    """

    def __init__(self, order: BucketOrder, window: Window) -> None:
        size = window.batch_size
        batches = [
            [Key(bucket_slot(bucket.size, int(index)), int(index), bucket.size) for index in few]
            for bucket in order.buckets
            for few in (bucket.examples[first : first + size] for first in range(0, len(bucket.examples), size))
        ]
        filler = [batches[0][0]._replace(slot=UNCOUNTED)]
        batches += [filler] * (-len(batches) % window.world_size)
        self.batches = batches[window.rank :: window.world_size]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[Key]]:
        return iter(self.batches)
