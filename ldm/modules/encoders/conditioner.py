"""From a batch's captions to the network's conditioning."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault
from ldm.modules.encoders.captions import Caption as Caption
from ldm.modules.encoders.captions import captions_of, most_captions
from ldm.transfers import to_device

EMPTY = ""
Pixels = tuple[int, int]
"""(height, width) of a picture."""


class EncoderSlice(NamedTuple):
    """Where in a conditioning lies what one of several encoders gives: a field, and tokens and numbers of it."""

    field: str
    tokens: slice | None
    """None: all of them, or a field without"""
    numbers: slice

    def of(self, tensor: Tensor) -> Tensor:
        """That part of the field (b, tokens, dim), or (b, dim), as a view."""
        return tensor[..., self.numbers] if self.tokens is None else tensor[:, self.tokens, self.numbers]


class Conditioner:
    """Embeds captions; in training it drops whole ones, for classifier-free guidance.

    embedder  list of captions to `Conditioning`; of `SDXLConditioner` also `unconditional`, what stands for a caption
              that is dropped, `takes_sizes`, whether the network embeds them, and `text_encoder_count`, how many
              may be given captions of their own
    key       key of the captions in a batch; `{key}_2` and `{key}_3` are those of the second and third encoder
    ucg_rate  share of captions to drop, in [0, 1] (Ho and Salimans 2022, arXiv 2207.12598)
    encoder_ucg_rate  {encoder, as `embedder.shares()` names them: share of captions to keep from it alone}, each by a
              draw of its own (Esser et al. 2024, arXiv 2403.03206, sec. 5.3.3)
    """

    def __init__(
        self,
        embedder: Callable[[list[Caption]], Conditioning] | Callable[[list[str]], Conditioning],
        key: str = "caption",
        ucg_rate: float = 0.0,
        encoder_ucg_rate: Mapping[str, float] | None = None,
    ) -> None:
        self.encoder_ucg_rate = encoder_ucg_rate or {}
        self.shares: Mapping[str, Sequence[EncoderSlice]] = getattr(embedder, "shares", dict)()
        for name, rate in {"": ucg_rate, **self.encoder_ucg_rate}.items():
            _require_rate(name, rate, [*self.shares])
        self.embedder: Callable[[list[Any]], Conditioning] = embedder
        self.key = key
        self.ucg_rate = ucg_rate
        # Read here, since a cache may take the embedder's place.
        self.drops_to_zeros = getattr(embedder, "unconditional", "empty caption") == "zeros"
        self.takes_sizes = bool(getattr(embedder, "takes_sizes", False))
        self.text_encoder_count = int(getattr(embedder, "text_encoder_count", 1))

    def __call__(self, batch: Mapping[str, Any], draws: BatchDraws | None, pixels: Pixels) -> Conditioning:
        """The conditioning for a batch of pictures of (h, w) `pixels`.

        Their slots alone decide which captions are dropped, and without draws none is. A batch that does not say where
        its pictures come from (`original_size`, `crop`, `target_size`) holds them whole.
        """
        captions = captions_of(batch, self.key)
        dropped = [False] * len(captions)
        rates = self._rates(batch, len(captions))
        if draws is not None and bool(rates.any()):
            dropped = (draws.uniform("caption_dropout") < rates).tolist()
        whole = {"original_size": pixels, "crop": (0, 0), "target_size": pixels}
        sizes = [batch.get(name, torch.tensor(value).expand(len(captions), 2)) for name, value in whole.items()]
        if draws is not None and self.encoder_ucg_rate:
            cond = self._each_dropped(captions, dropped, draws)
        else:
            cond = self._embedded(captions, dropped)
        return self._sized(cond, torch.cat([size.cpu() for size in sizes], dim=1))

    def _rates(self, batch: Mapping[str, Any], count: int) -> Tensor:
        """(b,) how often each caption is dropped: the batch's `ucg_rate`, its own below 0."""
        own = torch.full((count,), self.ucg_rate, dtype=torch.float32, device="cpu")
        return own if "ucg_rate" not in batch else torch.where((given := batch["ucg_rate"].cpu()) < 0, own, given)

    def on(self, captions: Sequence[Caption], pixels: Pixels) -> Conditioning:
        """The conditioning for whole pictures of (h, w) `pixels` with these captions."""
        return self._of_whole(captions, [False] * len(captions), pixels)

    def away_from(self, negatives: Sequence[str], pixels: Pixels) -> Conditioning:
        """What guidance steers away from: a caption for each picture, where that is empty a caption that is dropped."""
        return self._of_whole(negatives, [negative == EMPTY for negative in negatives], pixels)

    def _of_whole(self, captions: Sequence[Caption], dropped: Sequence[bool], pixels: Pixels) -> Conditioning:
        sizes = torch.tensor([*pixels, 0, 0, *pixels]).expand(len(captions), 6)
        return self._sized(self._embedded(captions, dropped), sizes)

    def _embedded(self, captions: Sequence[Caption], dropped: Sequence[bool]) -> Conditioning:
        if (most := most_captions(captions)) > self.text_encoder_count:
            what = f"captions for {most} text encoders have no effect: the model has {self.text_encoder_count}"
            raise Fault("CFG08", what, where=f"{self.key}_{most}", fix="leave it out, or train a model that has them")
        cond = self.embedder([EMPTY if drop else caption for caption, drop in zip(captions, dropped, strict=True)])
        if not (self.drops_to_zeros and any(dropped)):
            return cond
        rows = torch.tensor(dropped)
        return cond.map(lambda tensor: tensor.masked_fill(_rows(rows, tensor), 0))

    def _each_dropped(self, captions: Sequence[Caption], dropped: Sequence[bool], draws: BatchDraws) -> Conditioning:
        """The same with captions kept from single encoders; one call on every rank, whatever is drawn there."""
        both = self._embedded([*captions, EMPTY], [*dropped, True])
        cond, empty = both.map(lambda tensor: tensor[:-1].clone()), both.map(lambda tensor: tensor[-1:])
        for name, rate in self.encoder_ucg_rate.items():
            rows = draws.uniform(f"caption_dropout {name}") < rate
            for share in self.shares[name]:
                kept, instead = share.of(getattr(cond, share.field)), share.of(getattr(empty, share.field))
                kept.copy_(torch.where(_rows(rows, kept), instead, kept))
        return cond

    def _sized(self, cond: Conditioning, sizes: Tensor) -> Conditioning:
        """`cond` with sizes (b, 6), height before width, where the network embeds any; always in float32."""
        if not self.takes_sizes or cond.context is None:
            return cond
        return cond._replace(sizes=to_device(sizes.float(), cond.context.device))


def _require_rate(encoder: str, rate: float, known: Sequence[str]) -> None:
    where = "model.params.encoder_ucg_rate" if encoder else "model.params.ucg_rate"
    if encoder and encoder not in known:
        why = f"there are {', '.join(known)}" if known else "its text encoders cannot be dropped one by one"
        raise Fault("CFG03", f"the model has no text encoder {encoder}", where=where, why=why)
    if not 0 <= rate <= 1:
        name = f"encoder_ucg_rate.{encoder}" if encoder else "ucg_rate"
        raise Fault("CFG03", f"{name}={rate} is not a share of captions", why="it must lie between 0 and 1")


def _rows(chosen: Tensor, like: Tensor) -> Tensor:
    """`chosen` (b,) in as many dimensions as `like` (b, ...) has, where that is."""
    return to_device(chosen, like.device).view(-1, *[1] * (like.ndim - 1))
