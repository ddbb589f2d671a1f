"""How long the captions of a training set are, in tokens of the encoder that reads them, and how many are cut."""

import hashlib
import json
import statistics
from typing import Any

from torch import nn

from ldm.models.diffusion.part import Part
from ldm.remembered import remembered
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
    looked = min(len(access), ENOUGH)
    captions = [str(dataset.caption(place * len(access) // looked)) for place in range(looked)]
    counted = _counted(parts[TEXT_ENCODER], captions)
    if counted is None:
        return None
    lengths, limit = counted
    cut = sum(length > limit for length in lengths)
    share = f"{100 * cut / looked:.2g} % are cut" if cut else "none is cut"
    of = "" if looked == len(access) else f", by {looked:,} of {len(access):,}"
    return (
        f"{statistics.median_low(lengths)} tokens in the middle, {max(lengths)} at most, of {limit} read; {share}{of}"
    )


def _counted(part: Part, captions: list[str]) -> tuple[list[int], int] | None:
    """The tokens in each caption, and how many the first encoder of `part` reads; None where it counts none."""

    def count() -> tuple[list[int], int] | None:
        counter = token_counter(part.build_on_meta())
        if counter is None:
            return None
        tokens, limit = counter
        return [len(row) for row in tokens.ids(captions)], limit

    # A digest: a caption is not to be taken for the path of a file.
    digest = hashlib.sha256(json.dumps(captions).encode()).hexdigest()
    counted: tuple[list[int], int] | None = remembered("tokens", {"encoder": part.recipe, "captions": digest}, count)
    return counted


def token_counter(encoder: nn.Module) -> tuple[Any, int] | None:
    """What has the `ids` of captions for the first encoder among these, and how many of them that reads."""
    module: Any
    for module in encoder.modules():
        tokens: Any = getattr(module, "tokens", None)
        if hasattr(tokens, "ids"):
            return tokens, int(tokens.report.limit if hasattr(tokens, "report") else module.max_length)
    return None
