"""Which part of a picture a network for inpainting has to make up."""

from typing import Protocol

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.number_limits import SHARE, Interval, require_limits


class DrawsMasks(Protocol):
    """What draws a mask where the data have none."""

    def __call__(self, draws: BatchDraws, height: int, width: int) -> Tensor: ...


@configurable
class RandomRectangles:
    """One rectangle a picture, and now and then all of it.

    smallest   side of a rectangle as a share of the picture's, in (0, 1]; the largest is the whole side
    all_share  share of pictures that are masked as a whole, as when one is made from nothing
    """

    limits = {"smallest": Interval(0, 1, beyond=True), "all_share": SHARE}

    def __init__(self, smallest: float = 0.1, all_share: float = 0.25) -> None:
        require_limits("RandomRectangles", self.limits, {"smallest": smallest, "all_share": all_share})
        self.smallest = smallest
        self.all_share = all_share

    def __call__(self, draws: BatchDraws, height: int, width: int) -> Tensor:
        """1 where the network has to make something up, 0 elsewhere: (b, 1, height, width)."""
        return torch.stack([self._one(row, height, width) for row in draws.uniform("inpainting mask", (5,))])

    def _one(self, row: Tensor, height: int, width: int) -> Tensor:
        mask = torch.zeros(1, height, width)
        if row[0] < self.all_share:
            return mask + 1
        shares = self.smallest + (1 - self.smallest) * row[1:3]
        tall, wide = max(1, round(float(shares[0]) * height)), max(1, round(float(shares[1]) * width))
        top, left = int(row[3] * (height - tall + 1)), int(row[4] * (width - wide + 1))
        mask[:, top : top + tall, left : left + wide] = 1
        return mask


@configurable
class GivenMasks:
    """The masks that the data have (`mask` of `lun.data.local.Local`): white is what has to be made up.

    They say this and nothing else then: errors count everywhere. Samples of captions are made from nothing as ever.

    otherwise  draws the masks of batches without any, by default `RandomRectangles()`
    """

    from_data = True

    def __init__(self, otherwise: DrawsMasks | None = None) -> None:
        self.otherwise = otherwise or RandomRectangles()

    def __call__(self, draws: BatchDraws, height: int, width: int) -> Tensor:
        """See `RandomRectangles`."""
        return self.otherwise(draws, height, width)
