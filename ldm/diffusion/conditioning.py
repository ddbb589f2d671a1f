"""The conditioning of a network: its inputs besides the noisy latents and the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Conditioning(NamedTuple):
    """Embedded captions and whatever else steers a network; a field that a model has no use for stays None.

    A tuple, since strategies that cut up weights look for tensors in what a module returns, and into tuples.

    context  (b, tokens, dim) for cross-attention
    pooled   (b, dim) one vector a picture (SDXL)
    sizes    (b, 6) original size, crop and target size, height before width (SDXL)
    concat   (b, c, h, w) to be joined to the input's channels (inpainting)
    place    (b, 2) in [0, 1): where in the table of positions a picture lies, None for its centre (SD 3)
    """

    context: Tensor | None = None
    pooled: Tensor | None = None
    sizes: Tensor | None = None
    concat: Tensor | None = None
    place: Tensor | None = None

    def map(self, function: Callable[[Tensor], Tensor]) -> Conditioning:
        """The same conditioning with `function` applied to every tensor that it holds."""
        return Conditioning(*(value if value is None else function(value) for value in self))

    def join(self, other: Conditioning) -> Conditioning:
        """Both batches in one, this one first: (b1 + b2, ...). Raises ValueError unless both hold the same fields."""
        pairs = dict(zip(self._fields, zip(self, other, strict=True), strict=True))
        if odd := [name for name, (a, b) in pairs.items() if (a is None) != (b is None)]:
            raise ValueError(f"only one of two conditionings to be joined has {', '.join(odd)}")
        return Conditioning(*(None if a is None or b is None else torch.cat([a, b]) for a, b in pairs.values()))
