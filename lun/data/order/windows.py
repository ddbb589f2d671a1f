"""The order of a set that lies in shards: few of them are read at a time, and each example once a lap all the same.

In each lap the shards come in an order shuffled by (seed, lap), and are cut into windows of `across` shards. The
examples of a window come in an order shuffled by (seed, lap, window); window follows window. Any place can be asked for
alone, and what is kept is O(shards), and a few windows.
"""

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ldm.diffusion.draws import key

LAPS_KEPT = 2
WINDOWS_KEPT = 3
"""A bucket may be behind by a batch, which a window before holds."""


@dataclass(frozen=True)
class InShards:
    """How examples lie in shards: `lengths` (shards,) says how many of them each holds, one shard after the other.

    across  shards of one window
    """

    lengths: NDArray[np.int64]
    across: int

    @classmethod
    def of(cls, members: NDArray[np.int64], lengths: NDArray[np.int64], across: int) -> "InShards":
        """How `members`, ascending indices of examples in shards of `lengths`, lie in them."""
        return cls(np.diff(np.searchsorted(members, np.cumsum(lengths)), prepend=0), across)

    @property
    def windows(self) -> int:
        """How many windows one lap has."""
        return -(-len(self.lengths) // self.across)


@dataclass(frozen=True)
class Lap:
    """One lap: `shards` in their order, and how many examples lie before the end of each window."""

    shards: NDArray[np.int64]
    ends: NDArray[np.int64]


class Windows:
    """A permutation of all examples for each lap: number in the lap -> index, as `Shuffles`, in windows.

    what       distinguishes the sequences of one seed
    of_shards  the same for the order of shards alone: buckets of one set walk through the same windows
    """

    def __init__(self, lie: InShards, seed: int, what: tuple[int, ...] = (), of_shards: tuple[int, ...] = ()) -> None:
        self.lie = lie
        self.n = int(lie.lengths.sum())
        self.seed = seed
        self.what = what
        self.of_shards = of_shards
        self.ends = np.cumsum(lie.lengths)
        self._laps: OrderedDict[int, Lap] = OrderedDict()
        self._members: OrderedDict[tuple[int, int], NDArray[np.int64]] = OrderedDict()

    def __call__(self, lap: int, place: int) -> int:
        window = self.window_of(lap, place)
        ends = self.lap(lap).ends
        return int(self._window(lap, window)[place - (int(ends[window - 1]) if window else 0)])

    def window_of(self, lap: int, place: int) -> int:
        """The window in which `place` of a lap is read."""
        return int(np.searchsorted(self.lap(lap).ends, place, side="right"))

    def windows_of(self, lap: int, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """(m,) the same of several."""
        return np.searchsorted(self.lap(lap).ends, places, side="right")

    def lap(self, number: int) -> Lap:
        """The order of shards in a lap."""
        if number not in self._laps:
            while len(self._laps) >= LAPS_KEPT:
                self._laps.popitem(last=False)
            generator = torch.Generator().manual_seed(key(self.seed, "shards", number, *self.of_shards))
            shards = torch.randperm(len(self.lie.lengths), generator=generator).numpy()
            upto = np.cumsum(self.lie.lengths[shards])
            last = np.minimum(np.arange(1, self.lie.windows + 1) * self.lie.across, len(shards)) - 1
            self._laps[number] = Lap(shards, upto[last])
        return self._laps[number]

    def _window(self, lap: int, window: int) -> NDArray[np.int64]:
        """(m,) the indices of a window, in the order in which they are read."""
        asked = (lap, window)
        if asked in self._members:
            self._members.move_to_end(asked)
            return self._members[asked]
        while len(self._members) >= WINDOWS_KEPT:
            self._members.popitem(last=False)
        across = self.lie.across
        shards = np.sort(self.lap(lap).shards[window * across : (window + 1) * across])
        members = np.concatenate([np.arange(self.ends[s] - self.lie.lengths[s], self.ends[s]) for s in shards])
        generator = torch.Generator().manual_seed(key(self.seed, "window", lap, window, *self.what))
        self._members[asked] = members[torch.randperm(len(members), generator=generator).numpy()]
        return self._members[asked]
