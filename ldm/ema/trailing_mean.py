"""The mean of the last weights: a ring of means over blocks of steps, of which the window covers as much as it does."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ldm.ema.profiles import Profile, TrailingMean
from ldm.ema.shadow import Shadow
from ldm.ema.tracks import Track


class Block(Track):
    """The mean of the steps since `start`; only the last of a ring takes weights in."""

    def weight(self, last: int, step: int) -> float:
        return (step - last) / (step - self.start)


@dataclass
class WindowTrack(Track):
    """The mean over the steps (last_update - N, last_update] of the weights that were taken in.

    Weights stand for the steps since those that were taken in before. Each block is the mean of consecutive steps, of
    N / blocks of them once it is full; the oldest counts as far as it reaches into the window. So whenever the window
    begins with a block the mean is exact, and in between the mean age of drifting weights is off by at most
    N / (8 blocks^2) steps.

    An update costs what one of any average does. The blocks are put together only when the average is looked at.
    """

    ring: list[Track] = field(default_factory=list)
    shown: int = 0

    @property
    def law(self) -> TrailingMean:
        assert isinstance(self.profile, TrailingMean)
        return self.profile

    @property
    def blocks(self) -> Sequence[Track]:
        return self.ring

    @property
    def copies(self) -> int:
        """What is shown, the full blocks, one of which the window only touches, and the one that grows."""
        return self.law.blocks + 2

    def begin(self, tensors: Mapping[str, Tensor], step: int, device: str) -> None:
        super().begin(tensors, step, device)
        self.ring, self.shown = [], step

    def taker(self) -> Track:
        """The block that grows; a new one where the last is full, in the memory of one that the window has left."""
        last = self.ring[-1] if self.ring else None
        if last is not None and (last.last_update - last.start) * self.law.blocks < self.law.steps:
            return last
        left = [block for block in self.ring if block.last_update <= self.last_update - self.law.steps]
        self.ring = [block for block in self.ring if block not in left]
        return self.add(self.last_update, self.last_update, left[-1].shadow if left else None)

    def add(self, start: int, last_update: int, memory: Shadow | None = None) -> Track:
        """A further block. It holds the newest values there are, which stay where weights to come are not finite."""
        newest = (self.ring[-1] if self.ring else self).shadow
        assert newest is not None
        if memory is None:
            memory = Shadow(newest.views, str(newest.flat.device))
        else:
            memory.take(newest.views)
        self.ring.append(Block(self.profile, start, memory, last_update))
        return self.ring[-1]

    @torch.no_grad()
    def refresh(self) -> None:
        if self.shadow is None or self.shown == self.last_update:
            return
        self.wait()
        begin, total = self.last_update - self.law.steps, 0
        for block in self.ring:
            share = block.last_update - max(block.start, begin)
            if share > 0 and block.shadow is not None:
                total += share
                self.shadow.flat.lerp_(block.shadow.flat, share / total)
        self.shown = self.last_update

    def restart(self, blocks: Sequence[tuple[int, int]] | None) -> None:
        """Blocks of these (start, last_update], to be filled; None makes one of the average that was loaded."""
        self.ring = []
        for start, last_update in blocks if blocks is not None else [self._whole()]:
            self.add(start, last_update)
        self.shown = self.last_update

    def _whole(self) -> tuple[int, int]:
        return self.last_update - self.law.steps, self.last_update


def track_of(profile: Profile, start: int) -> Track:
    """The kind of track that a law needs."""
    return WindowTrack(profile, start) if isinstance(profile, TrailingMean) else Track(profile, start)
