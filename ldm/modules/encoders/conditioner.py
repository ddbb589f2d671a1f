"""From a batch's captions to the network's conditioning."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault

EMPTY = ""
Pixels = tuple[int, int]
"""(height, width) of a picture."""


class Conditioner:
    """Embeds captions; in training it drops whole ones, for classifier-free guidance.

    embedder  list of captions to `Conditioning`; of `SDXLConditioner` also `unconditional`, what stands for a caption
              that is dropped, and `tells_sizes`
    key       key of the captions in a batch
    ucg_rate  share of captions to drop, in [0, 1] (Ho and Salimans 2022, arXiv 2207.12598)
    """

    def __init__(
        self, embedder: Callable[[list[str]], Conditioning], key: str = "caption", ucg_rate: float = 0.0
    ) -> None:
        if not 0 <= ucg_rate <= 1:
            raise Fault("CFG03", f"ucg_rate={ucg_rate} is not a share of captions", why="it must lie between 0 and 1")
        self.embedder = embedder
        self.key = key
        self.ucg_rate = ucg_rate
        # Read here, since a cache may take the embedder's place.
        self.drops_to_zeros = getattr(embedder, "unconditional", "empty caption") == "zeros"
        self.tells_sizes = bool(getattr(embedder, "tells_sizes", False))

    def __call__(self, batch: Mapping[str, Any], draws: BatchDraws | None, pixels: Pixels) -> Conditioning:
        """The conditioning for a batch of pictures of (h, w) `pixels`.

        Their slots alone decide which captions are dropped, and without draws none is. A batch that does not say where
        its pictures come from (`original_size`, `crop`, `target_size`) holds them whole.
        """
        captions = list(batch[self.key])
        dropped = [False] * len(captions)
        if draws is not None and self.ucg_rate:
            dropped = (draws.uniform("caption_dropout") < self.ucg_rate).tolist()
        whole = {"original_size": pixels, "crop": (0, 0), "target_size": pixels}
        sizes = [batch.get(name, torch.tensor(value).expand(len(captions), 2)) for name, value in whole.items()]
        return self._sized(self._embedded(captions, dropped), torch.cat([size.cpu() for size in sizes], dim=1))

    def on(self, captions: Sequence[str], pixels: Pixels) -> Conditioning:
        """The conditioning for whole pictures of (h, w) `pixels` with these captions."""
        return self._of_whole(captions, [False] * len(captions), pixels)

    def away_from(self, negatives: Sequence[str], pixels: Pixels) -> Conditioning:
        """What guidance steers away from: a caption for each picture, where that is empty a caption that is dropped."""
        return self._of_whole(negatives, [negative == EMPTY for negative in negatives], pixels)

    def _of_whole(self, captions: Sequence[str], dropped: Sequence[bool], pixels: Pixels) -> Conditioning:
        sizes = torch.tensor([*pixels, 0, 0, *pixels]).expand(len(captions), 6)
        return self._sized(self._embedded(captions, dropped), sizes)

    def _embedded(self, captions: Sequence[str], dropped: Sequence[bool]) -> Conditioning:
        cond = self.embedder([EMPTY if drop else caption for caption, drop in zip(captions, dropped, strict=True)])
        if not (self.drops_to_zeros and any(dropped)):
            return cond
        rows = torch.tensor(dropped)
        return cond.map(lambda tensor: tensor.masked_fill(_rows(rows, tensor), 0))

    def _sized(self, cond: Conditioning, sizes: Tensor) -> Conditioning:
        """`cond` with sizes (b, 6), height before width, where the network embeds any; always in float32."""
        if not self.tells_sizes or cond.context is None:
            return cond
        return cond._replace(sizes=sizes.to(cond.context.device, torch.float32))


def _rows(chosen: Tensor, like: Tensor) -> Tensor:
    """`chosen` (b,) in as many dimensions as `like` (b, ...) has, where that is."""
    return chosen.to(like.device).view(-1, *[1] * (like.ndim - 1))
