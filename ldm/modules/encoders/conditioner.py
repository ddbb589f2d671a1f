"""From a batch's captions to what the network is told."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault

EMPTY = ""
SIZES = ("original_size", "crop", "target_size")
"""Keys of a batch, (b, 2) each, height before width, in the order of `Conditioning.sizes`."""


class Conditioner:
    """Embeds captions; in training it replaces whole ones by the empty caption, for classifier-free guidance.

    embedder  list of captions to `Conditioning`
    key       key of the captions in a batch
    ucg_rate  share of captions to replace, in [0, 1] (Ho and Salimans 2022, arXiv 2207.12598)
    """

    def __init__(
        self, embedder: Callable[[list[str]], Conditioning], key: str = "caption", ucg_rate: float = 0.0
    ) -> None:
        if not 0 <= ucg_rate <= 1:
            raise Fault("CFG03", f"ucg_rate={ucg_rate} is not a share of captions", why="it must lie between 0 and 1")
        self.embedder = embedder
        self.key = key
        self.ucg_rate = ucg_rate

    def __call__(self, batch: Mapping[str, Any], draws: BatchDraws | None) -> Conditioning:
        """Embed a batch's captions; their slots alone decide which are dropped, and without draws none is.

        Where the network is told sizes, those of the batch take the place of the embedder's.
        """
        captions = list(batch[self.key])
        if draws is not None and self.ucg_rate:
            dropped = (draws.uniform("caption_dropout") < self.ucg_rate).tolist()
            captions = [EMPTY if drop else caption for caption, drop in zip(captions, dropped, strict=True)]
        told = self.embedder(captions)
        if told.sizes is None or any(name not in batch for name in SIZES):
            return told
        sizes = torch.cat([batch[name] for name in SIZES], dim=1).to(told.sizes)
        return Conditioning(told.context, told.pooled, sizes, told.concat)

    def unconditional(self, count: int) -> Conditioning:
        """The empty caption, `count` times: what guidance steers away from."""
        return self.embedder([EMPTY] * count)
