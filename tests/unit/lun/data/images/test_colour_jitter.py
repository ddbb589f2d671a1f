"""Colours move as a slot decides, each setting by its own draw."""

import numpy as np
import pytest
from PIL import Image

from ldm.diffusion.draws import Draws
from lun.data.images.colour_jitter import ColourJitter, jittered

PICTURE = Image.fromarray(np.random.default_rng(0).integers(60, 190, (6, 5, 3), dtype=np.uint8))
GREY = PICTURE.convert("L").convert("RGB")


def moved(settings: ColourJitter, slot: int = 0, image: Image.Image = PICTURE) -> np.ndarray:
    return np.asarray(jittered(image, settings, Draws(0, slot))).astype(int)


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_a_slot_decides_how_far_colours_move(name):
    settings: ColourJitter = {name: 0.4}
    pictures = [moved(settings, slot) for slot in range(6)]
    assert len({picture.tobytes() for picture in pictures}) == 6
    assert np.array_equal(pictures[3], moved(settings, 3))


def test_brightness_multiplies():
    shares = [moved({"brightness": 0.3}, slot).mean() / np.asarray(PICTURE).mean() for slot in range(60)]
    assert 0.69 < min(shares) < 0.8 and 1.2 < max(shares) < 1.31


def test_contrast_keeps_the_mean_and_saturation_and_hue_keep_grey():
    assert moved({"contrast": 0.3}).mean() == pytest.approx(np.asarray(PICTURE).mean(), abs=4)
    for name in ("saturation", "hue"):
        settings: ColourJitter = {name: 0.5}
        assert np.array_equal(moved(settings, image=GREY), np.asarray(GREY))


def test_one_setting_does_not_move_the_draws_of_another():
    alone = moved({"contrast": 0.3})
    dark = Image.fromarray(moved({"brightness": 0.2}).astype(np.uint8))
    assert np.array_equal(moved({"brightness": 0.2, "contrast": 0.3}), moved({"contrast": 0.3}, image=dark))
    assert not np.array_equal(alone, moved({"brightness": 0.2, "contrast": 0.3}))
