"""The endless sequence of one size: its sets mixed, each shuffled anew in every lap of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ldm.diffusion.draws import key
from ldm.errors import Fault
from lun.data.order.law import Shuffles
from lun.data.order.mixture import Mixture
from lun.data.order.windows import InShards, Windows

LONGEST_BLOCK = 1 << 27
"""Places whose sets are kept in memory, 16 bytes each."""

ALONE = ""
"""The name of a set that is the only one and has none."""


@dataclass(frozen=True)
class SetPart:
    """The examples of one set that are read at one size.

    members  (m,) their indices in the whole dataset; an index that stands there three times is read three times a lap
    rate     how many of them are read an epoch: m times the set's repeats
    lie      how `members` lie in shards, where few of these are to be read at a time; None: shuffled all together
    """

    name: str
    members: np.ndarray | range
    rate: Fraction
    lie: InShards | None = None

    @property
    def whole(self) -> bool:
        """Whether an epoch is a whole number of laps."""
        return self.rate % len(self.members) == 0


class Stream:
    """Number -> index of an example, without end.

    parts  the sets
    what   distinguishes the streams of one seed
    first  set -> how many of its examples were read before number 0; they go on where they were

    Raises `Fault` CFG08 for sets of which one is read so seldom, or all so often, that no memory holds their order.
    """

    def __init__(
        self, parts: Sequence[SetPart], seed: int, what: Sequence[int] = (), first: Mapping[str, int] | None = None
    ) -> None:
        self.parts = parts
        self.seed = seed
        self.rate: Fraction = sum((part.rate for part in parts), Fraction(0))
        self.first = [(first or {}).get(part.name, 0) for part in parts]
        # A set in shards may be too long for an epoch's order to be kept: shares then hold in short blocks.
        whole = all(part.whole and part.lie is None for part in parts)
        self.mixture = Mixture([part.rate for part in parts], whole, seed, *what)
        if len(parts) > 1 and self.mixture.block > LONGEST_BLOCK:
            raise _too_far_apart(parts)
        self.shuffles = [_shuffles(part, seed, (*what, *_named(part.name))) for part in parts]

    def __call__(self, number: int) -> int:
        which, turn = self.mixture(number)
        members = self.parts[which].members
        lap, place = divmod(self.first[which] + turn, len(members))
        return int(members[self.shuffles[which](lap, place)])

    def counts(self, number: int) -> dict[str, int]:
        """How many examples of each set were read before `number`, those before number 0 included."""
        counts = zip(self.parts, self.first, self.mixture.counts(number), strict=True)
        return {part.name: first + count for part, first, count in counts}

    @property
    def windows(self) -> int:
        """Into how many windows of shards an epoch of it falls; 0 for a stream without shards."""
        return max((part.lie.windows for part in self.parts if part.lie is not None), default=0)

    @property
    def in_step(self) -> Windows | None:
        """The windows of the only set, if each epoch is just a lap of it."""
        only, shuffles = self.parts[0], self.shuffles[0]
        alone = len(self.parts) == 1 and only.rate == len(only.members) and not self.first[0]
        return shuffles if alone and isinstance(shuffles, Windows) else None

    def members_beside(self, index: int) -> np.ndarray | range:
        """The members of the set that example `index` belongs to."""
        return next((part.members for part in self.parts if index in part.members), self.parts[0].members)


def _shuffles(part: SetPart, seed: int, what: tuple[int, ...]) -> Shuffles | Windows:
    if part.lie is None:
        return Shuffles(len(part.members), seed, *what)
    return Windows(part.lie, seed, what, _named(part.name))


def _too_far_apart(parts: Sequence[SetPart]) -> Fault:
    often = ", ".join(f"{part.name}: {float(part.rate):.3g}" for part in parts)
    return Fault(
        "CFG08",
        "the sets are read too unequally often, or an epoch is too long, to mix them",
        where="data.params.train.sets",
        why=f"examples an epoch: {often}; a set has to come at least twice in {LONGEST_BLOCK:,}",
        fix="weights or repeats that are nearer to each other",
    )


def _named(name: str) -> tuple[int, ...]:
    return () if name == ALONE else (key(0, f"set/{name}"),)
