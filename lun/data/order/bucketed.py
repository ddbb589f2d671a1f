"""The order of examples in buckets: every step holds one size, no example is dropped, none comes early or late.

A bucket b of n_b examples has an endless sequence of its own, numbered from 0 and shuffled anew every n_b numbers. Its
batch q holds the numbers q GB ... q GB + GB - 1, where GB is the global batch. Epoch e of the run consists of the
batches floor(e n_b / GB) ... floor((e + 1) n_b / GB) - 1 of every bucket, in an order shuffled by (seed, e). So a
bucket that fills no batch in one epoch waits for a later one, and after e epochs each of its examples was read e times,
but for those of one batch.

The position counts examples, and so batches; a draw's slot has to be unique over all buckets and is the bucket's size
and the number within it (see `bucket_slot`).
"""

from bisect import bisect_right

import numpy as np
import torch

from ldm.diffusion.draws import key
from lun.data.order.bucket_table import BucketTable
from lun.data.order.law import Key, Shuffles, Size, drawn

SIDE_BITS, NUMBER_BITS = 14, 35


def bucket_slot(size: Size, number: int) -> int:
    """63 bits: width, height (14 bits each) and the running number within the bucket (35 bits)."""
    width, height = size
    return ((width << SIDE_BITS | height) << NUMBER_BITS) | number


class BucketOrder:
    """The endless sequence of the buckets of `table`, in batches of `global_batch`."""

    def __init__(self, table: BucketTable, seed: int, global_batch: int) -> None:
        self.buckets = table.buckets
        self.n = table.n
        self.seed = seed
        self.global_batch = global_batch
        self.counts = np.array([len(bucket.examples) for bucket in self.buckets], dtype=np.int64)
        self.shuffles = [Shuffles(len(bucket.examples), seed, *bucket.size) for bucket in self.buckets]
        self.members = {bucket.size: bucket.examples for bucket in self.buckets}
        self._rounds: dict[int, np.ndarray] = {}
        self._known, self._known_epoch = range(0), 0  # the batches of the epoch that was asked for last

    def key(self, place: int) -> Key:
        batch, lane = divmod(place, self.global_batch)
        epoch = self._epoch_of(batch)
        which, turn = self._round(epoch)[batch - self._batches_before(epoch)]
        number = int(turn) * self.global_batch + lane
        bucket = self.buckets[which]
        lap, position = divmod(number, len(bucket.examples))
        index = int(bucket.examples[self.shuffles[which](lap, position)])
        return Key(bucket_slot(bucket.size, number), index, bucket.size)

    def epoch(self, place: int) -> int:
        return self._epoch_of(place // self.global_batch)

    def start_of(self, epoch: int) -> int:
        return self._batches_before(epoch) * self.global_batch

    def beginning(self, place: int) -> int:
        """A run that was begun without buckets may stand anywhere; a batch must not hold two sizes."""
        return place - place % self.global_batch

    def another(self, key: Key, attempt: int) -> int:
        """Of the same bucket, so that it is cropped no more than its neighbours."""
        assert key.size is not None
        members = self.members[key.size]
        return int(members[drawn(self.seed, key, attempt, len(members))])

    def _batches_before(self, epoch: int) -> int:
        return int((epoch * self.counts // self.global_batch).sum())

    def _epoch_of(self, batch: int) -> int:
        if batch in self._known:
            return self._known_epoch
        low = batch * self.global_batch // self.n
        high = (batch + len(self.buckets)) * self.global_batch // self.n + 1
        epoch = low + bisect_right(range(low, high + 1), batch, key=self._batches_before) - 1
        self._known = range(self._batches_before(epoch), self._batches_before(epoch + 1))
        self._known_epoch = epoch
        return epoch

    def _round(self, epoch: int) -> np.ndarray:
        """(batches, 2): bucket and number of batch within it, of every batch of `epoch` in its order."""
        if epoch not in self._rounds:
            while len(self._rounds) > 1:
                del self._rounds[min(self._rounds)]
            first, end = (when * self.counts // self.global_batch for when in (epoch, epoch + 1))
            rows = [(which, turn) for which in range(len(first)) for turn in range(first[which], end[which])]
            generator = torch.Generator().manual_seed(key(self.seed, "round", epoch))
            shuffled = torch.randperm(len(rows), generator=generator).numpy()
            self._rounds[epoch] = np.array(rows, dtype=np.int64).reshape(-1, 2)[shuffled]
        return self._rounds[epoch]
