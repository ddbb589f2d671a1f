"""The order of examples in buckets: every step holds one size, no example is dropped, none comes early or late.

A bucket b of n_b examples has an endless sequence of its own, numbered from 0 and shuffled anew every n_b numbers. Its
batch q holds the numbers q GB ... q GB + GB - 1, where GB is the global batch. Epoch e of the run consists of the
batches floor(e n_b / GB) ... floor((e + 1) n_b / GB) - 1 of every bucket, in an order shuffled by (seed, e). So a
bucket that fills no batch in one epoch waits for a later one, and after e epochs each of its examples was read e times,
but for those of one batch.

Of a set in shards the batches of an epoch come window by window (`lun.data.order.windows`): first those that the first
window of shards fills, in an order shuffled among them; what fills no batch is carried into the next window.

With several sets `n_b` is the number of examples that are read of the bucket an epoch, which need not be whole, and
its sequence mixes the sets, each of which is shuffled anew in laps of its own (`lun.data.order.stream`).

The position counts examples, and so batches; a draw's slot has to be unique over all buckets and is the bucket's size
and the number within it (see `bucket_slot`).
"""

from bisect import bisect_right
from fractions import Fraction

import numpy as np
import torch

from ldm.diffusion.draws import key
from lun.data.order.bucket_table import BucketTable
from lun.data.order.law import Key, Size, drawn
from lun.data.order.law_start import BEGINNING, LawStart
from lun.data.order.stream import Stream

SIDE_BITS, NUMBER_BITS = 14, 35


def bucket_slot(size: Size, number: int) -> int:
    """63 bits: width, height (14 bits each) and the running number within the bucket (35 bits)."""
    width, height = size
    return ((width << SIDE_BITS | height) << NUMBER_BITS) | number


class BucketOrder:
    """The endless sequence of the buckets of `table`, in batches of `global_batch`, from `start` on."""

    def __init__(self, table: BucketTable, seed: int, global_batch: int, start: LawStart = BEGINNING) -> None:
        self.buckets = table.buckets
        self.n = table.n
        self.seed = seed
        self.global_batch = global_batch
        self.start = start
        self.streams = [Stream(one.parts, seed, one.size, start.read.get(one.size)) for one in self.buckets]
        self.rates = [Fraction(stream.rate, global_batch) for stream in self.streams]
        self.used = [start.used.get(bucket.size, 0) for bucket in self.buckets]
        self.of_size = {bucket.size: stream for bucket, stream in zip(self.buckets, self.streams, strict=True)}
        self._rounds: dict[int, np.ndarray] = {}
        self._known, self._known_epoch = range(0), 0  # the batches of the epoch that was asked for last

    def key(self, place: int) -> Key:
        batch, lane = divmod(place - self.start.slot, self.global_batch)
        epoch = self._epoch_of(batch)
        which, turn = self._round(epoch)[batch - self._batches_before(epoch)]
        number = int(turn) * self.global_batch + lane
        size = self.buckets[which].size
        return Key(bucket_slot(size, self.used[which] + number), self.streams[which](number), size)

    def epoch(self, place: int) -> int:
        return self.start.epoch + self._epoch_of((place - self.start.slot) // self.global_batch)

    def start_of(self, epoch: int) -> int:
        return self.start.slot + self._batches_before(epoch - self.start.epoch) * self.global_batch

    def beginning(self, place: int) -> int:
        """A run that was begun without buckets may stand anywhere; a batch must not hold two sizes."""
        return place - (place - self.start.slot) % self.global_batch

    def another(self, key: Key, attempt: int) -> int:
        """Of the same bucket, so that it is cropped no more than its neighbours, and of the same set."""
        assert key.size is not None
        members = self.of_size[key.size].members_beside(key.example)
        return int(members[drawn(self.seed, key, attempt, len(members))])

    def reached(self, place: int, step: int) -> LawStart:
        """What was read before `place`, the beginning of a batch, after `step` steps of the run."""
        batch = (place - self.start.slot) // self.global_batch
        epoch = self._epoch_of(batch)
        met = self._round(epoch)[: batch - self._batches_before(epoch), 0]
        inside = np.bincount(met, minlength=len(self.buckets)).tolist()
        numbers = [(first + more) * self.global_batch for first, more in zip(self._turns(epoch), inside, strict=True)]
        read, used = dict(self.start.read), dict(self.start.used)
        for bucket, stream, number in zip(self.buckets, self.streams, numbers, strict=True):
            read[bucket.size] = {**read.get(bucket.size, {}), **stream.counts(number)}
            used[bucket.size] = used.get(bucket.size, 0) + number
        return LawStart(place, step, self.epoch(place), read, used)

    def _turns(self, epoch: int) -> list[int]:
        """How many batches of each bucket lie before `epoch`."""
        return [epoch * rate.numerator // rate.denominator for rate in self.rates]

    def _batches_before(self, epoch: int) -> int:
        return sum(self._turns(epoch))

    def _epoch_of(self, batch: int) -> int:
        if batch in self._known:
            return self._known_epoch
        rate: Fraction = sum(self.rates, Fraction(0))
        low, high = int(batch / rate), int((batch + len(self.buckets)) / rate) + 1
        epoch = low + bisect_right(range(low, high + 1), batch, key=self._batches_before) - 1
        self._known = range(self._batches_before(epoch), self._batches_before(epoch + 1))
        self._known_epoch = epoch
        return epoch

    def _round(self, epoch: int) -> np.ndarray:
        """(batches, 2): bucket and number of batch within it, of every batch of `epoch` in its order."""
        if epoch not in self._rounds:
            while len(self._rounds) > 1:
                del self._rounds[min(self._rounds)]
            first, end = self._turns(epoch), self._turns(epoch + 1)
            which = np.repeat(np.arange(len(first)), [after - begin for begin, after in zip(first, end, strict=True)])
            turns = np.concatenate([np.arange(*one, dtype=np.int64) for one in zip(first, end, strict=True)])
            generator = torch.Generator().manual_seed(key(self.seed, "round", self.start.epoch + epoch))
            shuffled = torch.randperm(len(which), generator=generator).numpy()
            rows = np.stack([which, turns], axis=1)[shuffled]
            if any(stream.windows for stream in self.streams):
                rows = rows[np.argsort(self._windows_of(rows, epoch), kind="stable")]
            if any(bucket.sets for bucket in self.buckets):
                _take_in_turn(rows)
            self._rounds[epoch] = rows
        return self._rounds[epoch]

    def _windows_of(self, batches: np.ndarray, epoch: int) -> np.ndarray:
        """(n,) the window of shards by whose end each of `batches`, (n, 2) of bucket and number, has its last example.

        Where several sets are mixed each has windows of its own: then the share of the epoch that the bucket has behind
        it, in as many parts as the set with most windows has.
        """
        found = np.empty(len(batches), np.int64)
        in_step = [stream.in_step for stream in self.streams]
        parts = max(stream.windows for stream in self.streams)
        for which, (stream, windows) in enumerate(zip(self.streams, in_step, strict=True)):
            own = batches[:, 0] == which
            last = (batches[own, 1] + 1) * self.global_batch - 1
            if windows is not None and all(in_step):
                found[own] = windows.windows_of(epoch, last - epoch * windows.n)
            else:
                found[own] = (last - float(epoch * stream.rate)) / float(stream.rate) * parts
        return found


def _take_in_turn(batches: np.ndarray) -> None:
    """Let the batches of each bucket, (n, 2) of bucket and number, come by their numbers: sets are counted by prefixes.

    Those of one set alone come as they always did, so that old runs go on as they began.
    """
    for which in np.unique(batches[:, 0]):
        own = batches[:, 0] == which
        batches[own, 1] = np.sort(batches[own, 1])
