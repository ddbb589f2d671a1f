"""Loops that take turns in one process, and what one of them takes beyond another.

A machine that is slow for a while is so for neighbouring turns alike. What a loop takes beyond the plain one is
therefore its turn less the mean of that one's turns right before and after. Of these differences the half counts in
which all three turns together were quickest, and of it the median.
"""

import sys
import threading
from collections import Counter
from collections.abc import Sequence
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple


class Taken(NamedTuple):
    """What a step took, in us; both of a turn, and of what one takes beyond another."""

    wall: float
    cpu: float


class Turns:
    """Whose turn it is, and what each took. A loop in a thread of its own waits for its turns by `begin`.

    plain, others  names of loops; between two turns of others there is one of the plain loop
    rounds         in which each of the others has a turn, 2 or more. One more before warms up; in one after, which is
                   not timed, calls of functions are counted: they are the same whatever the machine does
    steps          of a turn
    """

    def __init__(self, plain: str, others: Sequence[str], rounds: int, steps: int) -> None:
        self.plain, self.steps = plain, steps
        self._order = [name for other in others for name in (plain, other)]
        self._rounds = rounds
        self._taken: list[Taken] = []
        self._calls: Counter[str] = Counter()
        self._now = 0
        self._changed = threading.Condition()
        self._began = Taken(0.0, 0.0)

    def steps_of(self, name: str) -> int:
        """Steps that a loop takes in all."""
        return self.steps * self._order.count(name) * (self._rounds + 2)

    def begin(self, name: str) -> None:
        """Wait for the next turn of a loop."""
        with self._changed:
            self._changed.wait_for(lambda: self._name() == name)
        if self._now >= len(self._order) * (self._rounds + 1):
            sys.setprofile(self._count)
        self._began = Taken(perf_counter(), process_time())

    def over(self) -> None:
        """The turn ends."""
        took = perf_counter() - self._began.wall, process_time() - self._began.cpu
        sys.setprofile(None)
        self._taken.append(Taken(*(1e6 * seconds / self.steps for seconds in took)))
        with self._changed:
            self._now += 1
            self._changed.notify_all()

    def calls(self, name: str) -> float:
        """Calls of functions in a step, those of libraries' functions that are not Python among them."""
        return self._calls[name] / (self.steps * self._order.count(name))

    def alone(self) -> Taken:
        """What a step of the plain loop takes: of the quicker half of its turns."""
        return of_quicker_half([(one.wall, one) for one in self._timed()[::2]])

    def beyond(self, name: str) -> Taken:
        """What a step of another loop takes beyond the plain one's."""
        timed = self._timed()
        places = range(self._order.index(name), len(timed) - 1, len(self._order))
        return of_quicker_half([_difference(*timed[place - 1 : place + 2]) for place in places])

    def _timed(self) -> list[Taken]:
        return self._taken[len(self._order) : -len(self._order)]

    def _name(self) -> str:
        return self._order[self._now % len(self._order)]

    def _count(self, frame: Any, event: str, function: Any) -> None:
        if event in ("call", "c_call"):
            self._calls[self._name()] += 1


def of_quicker_half(found: Sequence[tuple[float, Taken]]) -> Taken:
    """The medians of what stands beside the smaller half of numbers."""
    quicker = [taken for _, taken in sorted(found)[: (len(found) + 1) // 2]]
    return Taken(*(median(one) for one in zip(*quicker, strict=True)))


def _difference(before: Taken, own: Taken, after: Taken) -> tuple[float, Taken]:
    """Wall time of all three, and what the middle one took beyond its neighbours."""
    beside = zip(before, own, after, strict=True)
    return before.wall + own.wall + after.wall, Taken(*(one - (first + last) / 2 for first, one, last in beside))
