"""Aspect-ratio buckets: the sizes that pictures are cut to, and the one that costs each picture least."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypedDict

import numpy as np

from ldm.errors import Fault
from lun.data.order.law import Size

LARGEST_SIDE = 2**14 - 1
"""A slot holds 14 bits for each side."""

WHERE = "data.params.buckets"


class BucketSettings(TypedDict, total=False):
    """What `data.params.buckets` may say: see `Buckets`."""

    resolutions: list[int]
    step: int
    min_aspect: float
    max_aspect: float
    max_crop: float | None
    upscale: bool


@dataclass(frozen=True)
class Buckets:
    """The sizes of a run.

    resolutions  sides of squares, in pixels; each makes a family of sizes with at most that square's area, and every
                 picture is read once an epoch at each of them
    step         sides are multiples of it, in pixels
    min_aspect, max_aspect  the narrowest and the widest size, width / height
    max_crop     leave out pictures that would lose a larger share of their pixels; None leaves nothing out
    upscale      read pictures also at resolutions that they would have to be enlarged for (at the smallest one all are
                 read in any case)
    """

    resolutions: tuple[int, ...]
    step: int = 64
    min_aspect: float = 0.4
    max_aspect: float = 2.5
    max_crop: float | None = None
    upscale: bool = False

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> "Buckets":
        """From a config. Raises `Fault` CFG03 for an unknown key, CFG08 for a value that makes no sense."""
        known = [field.name for field in fields(cls)]
        for name in settings:
            if name not in known:
                raise Fault(
                    "CFG03", f"unknown setting {WHERE}.{name}", where=WHERE, why=f"it takes: {', '.join(known)}"
                )
        if not settings.get("resolutions"):
            raise Fault("CFG08", f"{WHERE} has no resolutions", fix=f"{WHERE}.resolutions=[512]")
        return cls(**{**settings, "resolutions": tuple(sorted(set(settings["resolutions"])))})

    def __post_init__(self) -> None:
        low, high = self.min_aspect, self.max_aspect
        _require(self.step > 0, "step", self.step, "a number of pixels above 0")
        _require(0 < low <= 1, "min_aspect", low, "a width / height above 0 and up to 1")
        _require(high >= 1, "max_aspect", high, "a width / height of 1 or more")
        _require(self.max_crop is None or 0 <= self.max_crop < 1, "max_crop", self.max_crop, "a share, 0 to 1, or null")
        for side in self.resolutions:
            _require(side >= self.step, "resolutions", side, f"sides of at least one step ({self.step} pixels)")
            widest = side * max(high, 1 / low) ** 0.5
            _require(widest <= LARGEST_SIDE, "resolutions", side, f"sizes of at most {LARGEST_SIDE} pixels a side")

    def sizes(self, resolution: int) -> list[Size]:
        """Every (width, height) of one resolution, from narrow to wide; one for each aspect ratio."""
        columns = range(self.step, int(resolution * self.max_aspect**0.5) + 1, self.step)
        wide = [(side, self._other(resolution, side)) for side in columns]
        rows = range(self.step, int(resolution * self.min_aspect**-0.5) + 1, self.step)
        tall = [(self._other(resolution, side), side) for side in rows]
        best: dict[float, Size] = {}
        for width, height in {*wide, *tall}:
            if height and width and self.min_aspect <= width / height <= self.max_aspect:
                best[width / height] = max((width, height), best.get(width / height, (0, 0)))
        return [best[aspect] for aspect in sorted(best)]

    def _other(self, resolution: int, side: int) -> int:
        return resolution**2 // side // self.step * self.step


@dataclass(frozen=True)
class BucketFit:
    """Where each picture of a dataset goes at one resolution.

    sizes    the sizes of the resolution
    chosen   (n,) number of the size of each picture
    cropped  (n,) share of its pixels that is cut away
    larger   (n,) whether the size asks for more pixels than the picture has
    """

    sizes: list[Size]
    chosen: np.ndarray
    cropped: np.ndarray
    larger: np.ndarray


def fit_sizes(pictures: np.ndarray, sizes: list[Size]) -> BucketFit:
    """The size that cuts away least of each of `pictures` (n, 2): the nearest in log(width / height)."""
    target = np.array(sizes, dtype=np.float64)
    aspects = np.log(target[:, 0] / target[:, 1])
    own = np.log(pictures[:, 0] / pictures[:, 1])
    chosen = np.searchsorted((aspects[1:] + aspects[:-1]) / 2, own)
    larger = (pictures < target[chosen]).any(axis=1)
    return BucketFit(sizes, chosen, 1 - np.exp(-np.abs(aspects[chosen] - own)), larger)


def _require(holds: bool, name: str, value: object, kind: str) -> None:
    if not holds:
        raise Fault("CFG08", f"{WHERE}.{name} cannot be {value!r}", why=f"it takes {kind}")
