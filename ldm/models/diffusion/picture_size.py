"""How large pictures are: from batches of pictures or of latents, and from the sides of what is noised."""

from collections.abc import Mapping
from typing import Any

Sides = tuple[int, int]
"""(h, w) of what is noised: pixels, or latents."""
Pixels = tuple[int, int]
"""(height, width) of a picture."""


def pixels_per_latent(model: object) -> int:
    """Pixels a side of what is noised; 1 for a model of pixels."""
    return int(getattr(getattr(model, "first_stage_model", None), "downsampling", 1))


def pixels_of_sides(model: object, sides: Sides) -> Pixels:
    """The size of pictures whose latents have these `sides`."""
    scale = pixels_per_latent(model)
    return sides[0] * scale, sides[1] * scale


def pixels_of_batch(model: object, batch: Mapping[str, Any], key: str) -> Pixels:
    """The size of a batch's pictures, (b, h, w, 3) under `key`, or of those that its `moments` were made of."""
    if "moments" in batch:
        return pixels_of_sides(model, (batch["moments"].shape[-2], batch["moments"].shape[-1]))
    return int(batch[key].shape[1]), int(batch[key].shape[2])
