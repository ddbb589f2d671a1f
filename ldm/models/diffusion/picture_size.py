"""How large pictures are, from the sides of what is noised."""

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
