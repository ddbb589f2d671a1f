"""What a model is given of a picture in words: one caption, or one for each of its text encoders."""

from collections.abc import Mapping, Sequence
from typing import Any

Caption = str | tuple[str, ...]
"""A text for every text encoder, or one for each in their order; encoders beyond the last get the first one's."""
FURTHER = (2, 3)
"""Encoders that may have captions of their own, as `caption_2` and `caption_3` of an example."""


def for_each(caption: str, further: Sequence[str | None]) -> Caption:
    """`caption` for all encoders but those that have one of their own in `further`, the second encoder's first.

    The same captions give the same value, however they were written: a cache knows them by it.
    """
    texts = [caption, *(caption if own is None else own for own in further)]
    while len(texts) > 1 and texts[-1] == caption:
        texts.pop()
    return caption if len(texts) == 1 else tuple(texts)


def captions_of(batch: Mapping[str, Any], key: str = "caption") -> list[Caption]:
    """The captions of a batch, those for further encoders (`caption_2`, ...) with them."""
    captions = list(batch[key])
    nothing = [None] * len(captions)
    further = zip(*(batch.get(f"{key}_{number}", nothing) for number in FURTHER), strict=True)
    return [for_each(caption, own) for caption, own in zip(captions, further, strict=True)]


def of_encoder(captions: Sequence[Caption], place: int) -> list[str]:
    """What the text encoder at `place`, from 0 on, is given."""
    each = [(caption,) if isinstance(caption, str) else caption for caption in captions]
    return [texts[place] if place < len(texts) else texts[0] for texts in each]


def most_captions(captions: Sequence[Caption]) -> int:
    """How many text encoders the captions are meant for, at least 1."""
    return max((1 if isinstance(caption, str) else len(caption) for caption in captions), default=1)
