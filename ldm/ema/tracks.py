"""Tracks: averages of the same weights under different laws, moved together in one pass over the weights."""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from ldm.ema.lerp import lerp
from ldm.ema.profiles import PowerDecay, Profile
from ldm.ema.shadow import Shadow


@dataclass
class Track:
    """One average: its law, and what it has taken in so far.

    start        the step at which it begins as a copy of the weights; its law counts steps from there
    shadow       None until then, so that it costs no memory
    last_update  the step whose weights were averaged in last
    reader       what reads the average beside training (see `hold`)
    """

    profile: Profile
    start: int = 0
    shadow: Shadow | None = None
    last_update: int = 0
    reader: Future[None] | None = field(default=None, compare=False)

    def hold(self, job: Future[None]) -> None:
        """Stay as it is until `job` is done, which reads it in another thread: the next update waits for it."""
        self.reader = job

    def wait(self) -> None:
        """Until nothing reads it any more; what went wrong with the reader is for whoever started it to ask."""
        if self.reader is not None:
            self.reader.exception()
            self.reader = None

    def begin(self, tensors: Mapping[str, Tensor], step: int, device: str) -> None:
        """Become a copy of the weights of `step`."""
        self.shadow = Shadow(tensors, device)
        self.last_update = step

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which nobody reads."""
        return self.__dict__ | {"reader": None}

    @property
    def blocks(self) -> "Sequence[Track] | None":
        """What the average is put together of; None where it is nothing but itself (`ldm.ema.trailing_mean`)."""
        return None

    @property
    def copies(self) -> int:
        """How many copies of the weights it keeps at most."""
        return 1

    def taker(self) -> "Track":
        """The track that takes the next weights in."""
        return self

    def refresh(self) -> None:
        """Let `shadow` be the average of all that was taken in."""

    def weight(self, last: int, step: int) -> float:
        """What the weights of `step` get in an average that took in those of `last` before."""
        return -math.expm1(self.profile.log_beta(last - self.start, step - self.start))


def power_tracks(main: Track, widths: Sequence[float]) -> dict[str, Track]:
    """{"power-<width>": track} for relative widths, starting with `main`, which stands for a width that is its own."""
    profiles = {f"power-{width:g}": PowerDecay(width) for width in widths}
    return {name: main if main.profile == law else Track(law, main.start) for name, law in profiles.items()}


def absorb(tracks: Sequence[Track], tensors: Mapping[str, Tensor], step: int) -> int:
    """Average the weights of `step` into all tracks, reading them once; returns how many numbers are not finite.

    Such a number counts as if it were equal to its average, which it leaves as it is (`ema_lerp`).
    """
    if not tracks or any(track.shadow is None for track in tracks):
        raise RuntimeError("a track takes weights in only once it has begun")
    for track in tracks:
        track.wait()
    takers = [track.taker() for track in tracks]
    flats = [track.shadow.flat for track in takers if track.shadow is not None]
    lost = lerp(flats, list(tensors.values()), [track.weight(track.last_update, step) for track in takers])
    for track in (*tracks, *takers):
        track.last_update = step
    return lost
