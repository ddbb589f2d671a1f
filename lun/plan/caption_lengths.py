"""How long the captions of a training set are, in tokens of the encoder that reads them, and how many are cut."""

import statistics
from typing import Any

from torch import nn

from lun.data.dataset_protocol import DatasetAccess

ENOUGH = 256
"""Captions, evenly over the set, by which all are judged."""
TEXT_ENCODER = "text encoder"


def caption_lengths(model: Any, dataset: Any) -> str | None:
    """`12 tokens in the middle, 80 at most, of 75 that are read; 3 % are cut`; None where nothing counts tokens."""
    access = DatasetAccess(dataset)
    parts = model.part_recipes() if hasattr(model, "part_recipes") else {}
    if TEXT_ENCODER not in parts or not access.has("caption") or not len(access):
        return None
    counter = token_counter(parts[TEXT_ENCODER].build_on_meta())
    if counter is None:
        return None
    tokens, limit = counter
    looked = min(len(access), ENOUGH)
    captions = [str(dataset.caption(place * len(access) // looked)) for place in range(looked)]
    lengths = [len(row) for row in tokens.ids(captions)]
    cut = sum(length > limit for length in lengths)
    share = f"{100 * cut / looked:.2g} % are cut" if cut else "none is cut"
    of = "" if looked == len(access) else f", by {looked:,} of {len(access):,}"
    return (
        f"{statistics.median_low(lengths)} tokens in the middle, {max(lengths)} at most, of {limit} read; {share}{of}"
    )


def token_counter(encoder: nn.Module) -> tuple[Any, int] | None:
    """What has the `ids` of captions for the first encoder among these, and how many of them that reads."""
    module: Any
    for module in encoder.modules():
        tokens: Any = getattr(module, "tokens", None)
        if hasattr(tokens, "ids"):
            return tokens, int(tokens.report.limit if hasattr(tokens, "report") else module.max_length)
    return None
