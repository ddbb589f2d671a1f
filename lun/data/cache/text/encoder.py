"""A frozen text encoder as the cache sees it: captions in, conditioning out."""

from typing import Any

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.modules.encoders.captions import Caption
from lun.data.cache.shards.identity import identity

NOT_OF_TEXT = "sizes"
"""Numbers of pixels, which half precision would round."""


class TextEncoder:
    """Encodes in the precision of the encoder's own weights, whatever the precision of training.

    network  an nn.Module from a list of captions to `Conditioning`
    device   where results are wanted; the network computes where it is
    """

    def __init__(self, network: Any, device: torch.device) -> None:
        self.network = network
        self.device = device

    @torch.no_grad()
    def __call__(self, captions: list[Caption]) -> Conditioning:
        with torch.autocast(self.device.type, enabled=False):
            cond: Conditioning = self.network(captions)
        return cond.map(lambda tensor: tensor.to(self.device))

    def identity(self) -> str:
        """What identifies this encoder: another never meets its states."""
        return identity(self.network)


def columns_of(cond: Conditioning) -> dict[str, Tensor]:
    """The fields that hold something, by name."""
    columns = {name: getattr(cond, name) for name in Conditioning.__annotations__}
    return {name: column for name, column in columns.items() if column is not None}


def rows_of(cond: Conditioning, dtype: torch.dtype) -> list[dict[str, Tensor]]:
    """The fields of each caption, to be stored: in `dtype`, on the CPU."""
    columns = {
        name: column.to("cpu", torch.float32 if name == NOT_OF_TEXT else dtype)
        for name, column in columns_of(cond).items()
    }
    count = len(next(iter(columns.values())))
    return [{name: column[row].clone() for name, column in columns.items()} for row in range(count)]
