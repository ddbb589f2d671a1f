"""The endless sequence of one size: its sets mixed, each shuffled anew in every lap of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ldm.diffusion.draws import key
from lun.data.order.law import Shuffles
from lun.data.order.mixture import Mixture

ALONE = ""
"""The name of a set that is the only one and has none."""


@dataclass(frozen=True)
class SetPart:
    """The examples of one set that are read at one size.

    members  (m,) their indices in the whole dataset; an index that stands there three times is read three times a lap
    rate     how many of them are read an epoch: m times the set's repeats
    """

    name: str
    members: np.ndarray | range
    rate: Fraction

    @property
    def whole(self) -> bool:
        """Whether an epoch is a whole number of laps."""
        return self.rate % len(self.members) == 0


class Stream:
    """Number -> index of an example, without end.

    parts  the sets
    what   tells the streams of one seed apart
    first  set -> how many of its examples were read before number 0; they go on where they were
    """

    def __init__(
        self, parts: Sequence[SetPart], seed: int, what: Sequence[int] = (), first: Mapping[str, int] | None = None
    ) -> None:
        self.parts = parts
        self.seed = seed
        self.rate: Fraction = sum((part.rate for part in parts), Fraction(0))
        self.first = [(first or {}).get(part.name, 0) for part in parts]
        self.mixture = Mixture([part.rate for part in parts], all(part.whole for part in parts), seed, *what)
        self.shuffles = [Shuffles(len(part.members), seed, *what, *_named(part.name)) for part in parts]

    def __call__(self, number: int) -> int:
        which, turn = self.mixture(number)
        members = self.parts[which].members
        lap, place = divmod(self.first[which] + turn, len(members))
        return int(members[self.shuffles[which](lap, place)])

    def counts(self, number: int) -> dict[str, int]:
        """How many examples of each set were read before `number`, those before number 0 included."""
        counts = zip(self.parts, self.first, self.mixture.counts(number), strict=True)
        return {part.name: first + count for part, first, count in counts}

    def members_beside(self, index: int) -> np.ndarray | range:
        """The members of the set that example `index` belongs to."""
        return next((part.members for part in self.parts if index in part.members), self.parts[0].members)


def _named(name: str) -> tuple[int, ...]:
    return () if name == ALONE else (key(0, f"set/{name}"),)
