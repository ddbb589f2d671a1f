"""The order of several sets without buckets."""

from collections.abc import Sequence

from lun.data.order.law import Key, drawn
from lun.data.order.law_start import BEGINNING, LawStart
from lun.data.order.stream import SetPart, Stream


class MixedOrder:
    """The endless sequence of several sets from `start` on; the slot is the place itself."""

    def __init__(self, parts: Sequence[SetPart], seed: int, start: LawStart = BEGINNING) -> None:
        self.seed = seed
        self.start = start
        self.stream = Stream(parts, seed, first=start.read.get(None))
        self.n = max(1, round(self.stream.rate))

    def key(self, place: int) -> Key:
        return Key(place, self.stream(place - self.start.slot))

    def epoch(self, place: int) -> int:
        return self.start.epoch + (place - self.start.slot) // self.n

    def start_of(self, epoch: int) -> int:
        return self.start.slot + (epoch - self.start.epoch) * self.n

    def beginning(self, place: int) -> int:
        return place

    def another(self, key: Key, attempt: int) -> int:
        """Of the same set."""
        members = self.stream.members_beside(key.example)
        return int(members[drawn(self.seed, key, attempt, len(members))])

    def reached(self, place: int, step: int) -> LawStart:
        """What was read before `place`, after `step` steps of the run."""
        counts = self.stream.counts(place - self.start.slot)
        return LawStart(place, step, self.epoch(place), {None: {**self.start.read.get(None, {}), **counts}})
