"""Colours moved by chance: brightness, contrast, saturation and hue, in this order."""

from collections.abc import Mapping
from typing import Any, TypedDict

import numpy as np
import torch
from PIL import Image, ImageEnhance

from ldm.diffusion.draws import Draws


class ColourJitter(TypedDict, total=False):
    """How far colours move, as in torchvision's ColorJitter: factors from 1 - x to 1 + x, x of the circle of hues."""

    brightness: float
    contrast: float
    saturation: float
    hue: float


MOST = {"brightness": 1.0, "contrast": 1.0, "saturation": 1.0, "hue": 0.5}
JITTERS = "some of brightness, contrast, saturation (each 0 to 1) and hue (0 to 0.5), one of them above 0"

_ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "saturation": ImageEnhance.Color,
}


def is_jitter(settings: Any) -> bool:
    """Whether `settings` are those of a `ColourJitter` that moves something."""
    if not isinstance(settings, Mapping) or not settings.keys() <= MOST.keys() or not any(settings.values()):
        return False
    return all(isinstance(value, int | float) and 0 <= value <= MOST[name] for name, value in settings.items())


def jittered(image: Image.Image, settings: ColourJitter, draws: Draws) -> Image.Image:
    """An RGB picture with its colours moved as the slot of `draws` decides; each setting has a draw of its own."""
    drawn = 2 * torch.rand(4, generator=draws("colour"), dtype=torch.float64) - 1
    far: Mapping[str, Any] = settings
    moves = {name: far.get(name, 0.0) * float(by) for name, by in zip(MOST, drawn, strict=True)}
    for name, enhancer in _ENHANCERS.items():
        if moves[name]:
            image = enhancer(image).enhance(1 + moves[name])
    return _hue_turned(image, round(256 * moves["hue"])) if moves["hue"] else image


def _hue_turned(image: Image.Image, by: int) -> Image.Image:
    """`by` of 256 steps round the circle of hues."""
    hsv = np.array(image.convert("HSV"))
    hsv[..., 0] = (hsv[..., 0].astype(np.int16) + by) % 256
    return Image.fromarray(hsv, "HSV").convert("RGB")
