"""The first stage as the cache sees it: pictures in, moments out, and what identifies it."""

from typing import Any

import torch
from torch import Tensor

from ldm.models.pixels import centred
from lun.data.cache.shards.identity import identity


class LatentEncoder:
    """Encodes in the precision of the first stage's own weights, whatever the precision of training.

    first_stage  has `encode_moments` and is an nn.Module
    """

    def __init__(self, first_stage: Any, device: torch.device) -> None:
        self.first_stage = first_stage
        self.device = device
        self.dtype = next(first_stage.parameters()).dtype

    @torch.no_grad()
    def __call__(self, pictures: Tensor) -> Tensor:
        """(b, h, w, 3), uint8 or in [-1, 1], to (b, 2z, h/f, w/f) float32 on the CPU."""
        with torch.autocast(self.device.type, enabled=False):
            x = centred(pictures.to(self.device)).movedim(-1, 1).to(self.dtype)
            moments: Tensor = self.first_stage.encode_moments(x)
        return moments.float().cpu()

    def identity(self) -> str:
        """What identifies this first stage: another never meets its moments."""
        return identity(self.first_stage)
