"""Turning and shrinking latents and pictures alike, so that an autoencoder's latents follow what is done to them."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.number_limits import SHARE, Interval, Limited


class Motion(NamedTuple):
    """A rotation by `turns` quarters of a circle, then `scale` times the sides."""

    turns: int = 0
    scale: float = 1.0

    def __call__(self, x: Tensor, unit: int) -> Tensor:
        """What becomes of latents (b, c, h, w), a `unit` of 1, or of their pictures, whose unit is a latent's side.

        Their sides stay in step: a picture's are `unit` times those of its latents.
        """
        turned = torch.rot90(x, self.turns, (-2, -1)) if self.turns else x
        height, width = (unit * max(1, round(self.scale * (side // unit))) for side in turned.shape[-2:])
        if (height, width) == tuple(turned.shape[-2:]):
            return turned
        # As matrices: the backward pass of an interpolation adds up in any order on a GPU.
        with torch.autocast(x.device.type, enabled=False):
            down, across = _weights(turned.shape[-2], height), _weights(turned.shape[-1], width)
            return (down.to(x.device) @ turned.float() @ across.to(x.device).T).to(x.dtype)


STILL = Motion()


@configurable
@dataclass(frozen=True)
class Equivariance(Limited):
    """EQ regularisation (Kouzelis et al. 2025, EQ-VAE, arXiv 2502.09509): in a share of the steps latents are turned
    and shrunk before they are decoded, and compared with pictures to which the same was done.

    share        of the steps; in the others a picture is reconstructed as it is
    least_scale  sides are multiplied by a number from this one to 1, uniformly
    rotate       turn by 0, 90, 180 or 270 degrees, each as often
    """

    limits = {"share": SHARE, "least_scale": Interval(0, 1, beyond=True)}
    share: float = 0.5
    least_scale: float = 0.25
    rotate: bool = True

    def __call__(self, seed: int) -> Motion:
        """What is done in the step of that seed, the same on all ranks and in all of its micro-batches."""
        draws = torch.rand(3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64, device="cpu")
        moved, scale, turn = draws.tolist()
        if moved >= self.share:
            return STILL
        return Motion(int(4 * turn) if self.rotate else 0, self.least_scale + (1 - self.least_scale) * scale)


def _weights(side: int, wanted: int) -> Tensor:
    """(wanted, side): of the old rows in each new one, linear and without aliases."""
    rows = torch.eye(side, device="cpu")[None, None]
    return F.interpolate(rows, (wanted, side), mode="bilinear", antialias=True)[0, 0]
