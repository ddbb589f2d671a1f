"""A law by pieces: sets that come later or leave earlier, at a step of the run."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Protocol

from lun.data.order.law import Key, Law
from lun.data.order.law_start import LawStart


class Continuable(Law, Protocol):
    """A law that counts what was read of each set before a place, so that another can go on from there."""

    def reached(self, place: int, step: int) -> LawStart:
        """What was read before `place`, the beginning of a batch, after `step` steps of the run."""


class Segments:
    """The law of each stretch of steps, one after the other.

    law           (the first step of a stretch, where it starts) -> its law
    start         where the first one starts
    changes       steps, in their order, from each of which on other sets are read
    global_batch  examples of a step
    """

    def __init__(
        self, law: Callable[[int, LawStart], Continuable], start: LawStart, changes: Sequence[int], global_batch: int
    ) -> None:
        self.laws, self.slots, self.steps = [law(start.step, start)], [start.slot], [start.step]
        for step in changes:
            if step > start.step:
                slot = start.slot + (step - start.step) * global_batch
                self.laws.append(law(step, self.laws[-1].reached(slot, step)))
                self.slots.append(slot)
                self.steps.append(step)
        self.n = self.laws[0].n
        self.global_batch = global_batch

    def key(self, place: int) -> Key:
        return self._at(place).key(place)

    def epoch(self, place: int) -> int:
        return self._at(place).epoch(place)

    def start_of(self, epoch: int) -> int:
        return self.laws[0].start_of(epoch)

    def beginning(self, place: int) -> int:
        return self._at(place).beginning(place)

    def another(self, key: Key, attempt: int) -> int:
        """By whichever law knows the size; an example of a set that is not read any more gives way to one that is."""
        for law in reversed(self.laws):
            if key.size is None or key.size in getattr(law, "of_size", {}):
                return law.another(key, attempt)
        raise KeyError(key.size)

    def reached(self, place: int, step: int) -> LawStart:
        return self._at(place).reached(place, step)

    def _at(self, place: int) -> Continuable:
        return self.laws[bisect_right(self.slots, place) - 1]
