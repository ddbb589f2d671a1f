"""Where cuts lie: in the middle, or where a slot draws them; always inside, always on whole pixels."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from ldm.diffusion.draws import Draws
from lun.data.images.cuts import DrawnPart, Middle, centre_box, cut_of

PICTURES = [(64, 64), (100, 37), (37, 100), (65, 64), (641, 480), (7, 9)]
TARGETS = [(32, 32), (48, 16), (16, 48), (7, 7)]


@pytest.mark.parametrize(
    ("size", "shape", "box"),
    [
        ((10, 4), (1, 1), (3, 0, 7, 4)),
        ((4, 9), (1, 1), (0, 2, 4, 6)),
        ((5, 5), (64, 64), (0, 0, 5, 5)),
        ((100, 300), (64, 32), (0, 125, 100, 175)),
        ((100, 50), (2, 1), (0, 0, 100, 50)),
        ((100, 50), (1, 1), (25, 0, 75, 50)),
        ((100, 50), (4, 1), (0, 12, 100, 37)),
        ((50, 100), (3, 2), (0, 33, 50, 66)),
    ],
)
def test_the_middle_of_any_shape_is_cut_out(size, shape, box):
    assert centre_box(*size, *shape) == box
    assert Middle().box(size, shape) == box


def parts(sides: tuple[float, ...] = (1.0, 0.7), angles: tuple[float, ...] = (0.0, 9.0, -45.0)) -> Iterator[tuple]:
    places = np.random.default_rng(0).random((4, 2)).tolist() + [[0.0, 0.0], [1 - 1e-12, 1 - 1e-12]]
    for picture in PICTURES:
        for target in TARGETS:
            yield from (
                (picture, target, DrawnPart(x, y, side, a)) for x, y in places for side in sides for a in angles
            )


def test_a_drawn_cut_has_the_shape_of_its_target_and_lies_on_its_pixels():
    for picture, target, part in parts():
        left, top, right, bottom = part.box(picture, target)
        assert (right - left) / (bottom - top) == pytest.approx(target[0] / target[1])
        if not part.turned:
            for place, side, wanted in ((left, right - left, target[0]), (top, bottom - top, target[1])):
                assert place * wanted / side == pytest.approx(round(place * wanted / side), abs=1e-6)


def test_a_drawn_cut_shows_nothing_from_beyond_the_picture_however_that_was_turned():
    for picture, target, part in parts():
        left, top, right, bottom = part.box(picture, target)
        middle, angle = np.array(picture) / 2, math.radians(part.turned)
        corners = np.array([(x, y) for x in (left, right) for y in (top, bottom)]) - middle
        back = corners @ np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        assert (np.abs(back) <= middle + 1e-6).all()


def test_every_place_is_as_likely():
    lefts = [DrawnPart(x, 0.5).box((35, 32), (32, 32))[0] for x in np.arange(400) / 400]
    assert np.unique(lefts, return_counts=True)[1].tolist() == [100] * 4


def test_without_a_target_the_scale_is_kept():
    for x in (0.0, 0.4, 0.999):
        left, top, right, bottom = DrawnPart(x, x).box((20, 9), None)
        assert (right - left, bottom - top, top) == (9, 9, 0)
        assert left == int(left)


def test_the_share_of_the_area_is_drawn_evenly():
    cuts = [cut_of({"resized": [0.25, 0.75]}, Draws(0, slot)) for slot in range(400)]
    areas = np.array([cut.side**2 for cut in cuts if isinstance(cut, DrawnPart)])
    assert areas.min() >= 0.25 and areas.max() <= 0.75
    assert areas.mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("crop", ["random", {"resized": [0.5, 1]}])
def test_without_draws_the_cut_is_the_middle(crop):
    assert isinstance(cut_of(crop, None), Middle)
