"""Tracks: averages of the same weights under different laws, moved together in one pass over the weights."""

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ldm.modules.ema_profiles import PowerDecay, Profile
from ldm.modules.ema_shadow import Shadow, is_finite


@dataclass
class Track:
    """One average: its law, and what it has taken in so far.

    start        the step at which it begins as a copy of the weights; its law counts steps from there
    shadow       None until then, so that it costs no memory
    last_update  the step whose weights were averaged in last
    behind       {piece: its own last update} for pieces whose weights were not finite since then
    reader       what reads the average beside training (see `hold`)
    """

    profile: Profile
    start: int = 0
    shadow: Shadow | None = None
    last_update: int = 0
    behind: dict[int, int] = field(default_factory=dict)
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
        self.behind.clear()

    def __getstate__(self) -> dict[str, Any]:
        """For copies, which nobody reads."""
        return self.__dict__ | {"reader": None}

    def weight(self, last: int, step: int) -> float:
        """What the weights of `step` get in an average that took in those of `last` before."""
        return -math.expm1(self.profile.log_beta(last - self.start, step - self.start))


def power_tracks(main: Track, widths: Sequence[float]) -> dict[str, Track]:
    """{"power-<width>": track} for relative widths, starting with `main`, which stands for a width that is its own."""
    profiles = {f"power-{width:g}": PowerDecay(width) for width in widths}
    return {name: main if main.profile == law else Track(law, main.start) for name, law in profiles.items()}


@torch.no_grad()
def absorb(tracks: Sequence[Track], tensors: Mapping[str, Tensor], step: int) -> int:
    """Average the weights of `step` into all tracks; returns how many pieces were left out as not finite.

    A piece is checked before anything of it is written, right before it is read again from the cache, since a separate
    pass over all weights would cost half as much as the update. Pieces left out stay as they were, bit for bit, and
    their next update covers both intervals. The weights are read once for all tracks.
    """
    shadows = [track.shadow for track in tracks if track.shadow is not None]
    if len(shadows) < len(tracks) or not tracks:
        raise RuntimeError("a track takes weights in only once it has begun")
    for track in tracks:
        track.wait()
    if shadows[0].flat.device.type != "cpu":
        return _absorb_on_device(tracks, tensors, step)
    weights = [track.weight(track.last_update, step) for track in tracks]
    bad: list[int] = []
    index = -1
    for index, piece in enumerate(shadows[0].reader.pieces(tensors)):
        if not is_finite(piece):
            bad.append(index)
            continue
        for track, shadow, weight in zip(tracks, shadows, weights, strict=True):
            if track.behind and index in track.behind:
                weight = track.weight(track.behind.pop(index), step)
            shadow.pieces[index].lerp_(piece, weight)
    if len(bad) <= index:
        for track in tracks:
            track.behind |= {piece: track.behind.get(piece, track.last_update) for piece in bad}
            track.last_update = step
    return len(bad)


def _absorb_on_device(tracks: Sequence[Track], tensors: Mapping[str, Tensor], step: int) -> int:
    """The same for averages on an accelerator: all or nothing, with a single wait for the device."""
    sums = torch.stack([tensor.detach().sum(dtype=torch.float64) for tensor in tensors.values()])
    if not bool(sums.isfinite().all()):
        return len(tensors)
    for track in tracks:
        assert track.shadow is not None
        weight = track.weight(track.last_update, step)
        for name, view in track.shadow.views.items():
            view.lerp_(tensors[name].detach().to(view.device, view.dtype), weight)
        track.last_update = step
    return 0
