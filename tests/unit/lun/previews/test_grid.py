"""Bytes, grids and wrapped text."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from lun.previews.grid import fitted, font, grid, layout, shortened, to_uint8, wrapped, write


def colours(count: int, height: int = 4, width: int = 4) -> np.ndarray:
    """Plain pictures, each of a colour of its own."""
    shades = np.arange(count, dtype=np.uint8) * 10 + 5
    return np.broadcast_to(shades[:, None, None, None], (count, height, width, 3)).copy()


def test_bytes_are_rounded_to_the_nearest():
    values = torch.tensor([-1.0, 1.0, 2 * 99.4 / 255 - 1, 2 * 99.6 / 255 - 1])
    images = values.view(1, 1, 2, 2).expand(1, 3, 2, 2)
    assert to_uint8(images)[0, :, :, 0].tolist() == [[0, 255], [99, 100]]


@given(st.lists(st.integers(0, 255), min_size=4, max_size=4))
def test_every_byte_survives_the_way_to_minus_one_to_one_and_back(values):
    pixels = torch.tensor(values, dtype=torch.uint8).view(1, 1, 2, 2).expand(1, 3, 2, 2)
    assert np.array_equal(to_uint8(pixels.float() / 127.5 - 1)[0, :, :, 2], np.array(values).reshape(2, 2))


def test_values_outside_the_range_are_cut_off():
    images = torch.tensor([-3.0, 3.0]).view(1, 1, 1, 2).expand(1, 3, 1, 2)
    assert to_uint8(images)[0, 0, :, 0].tolist() == [0, 255]


def test_without_clamp_an_overshooting_picture_is_squeezed_into_the_range():
    images = torch.tensor([-3.0, -1.0, 1.0]).view(1, 1, 1, 3).expand(1, 3, 1, 3)
    assert to_uint8(images, clamp=False)[0, 0, :, 0].tolist() == [0, 128, 255]


def test_without_clamp_a_picture_inside_the_range_stays_as_it_is():
    images = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)) * 2 - 1
    assert np.array_equal(to_uint8(images, clamp=False), to_uint8(images))


def test_without_rescale_pictures_are_taken_as_zero_to_one():
    assert to_uint8(torch.full((1, 3, 1, 1), 0.2), rescale=False).max() == 51


def test_not_a_number_becomes_grey_and_one_channel_becomes_three():
    assert to_uint8(torch.full((1, 1, 2, 2), float("nan"))).tolist() == [[[[128] * 3] * 2] * 2]


@pytest.mark.parametrize("captioned", [False, True])
@pytest.mark.parametrize("scale", [1, 3])
def test_each_tile_of_a_grid_lies_where_the_layout_says(captioned, scale):
    images = colours(5, height=3, width=6)
    captions = ["a", "b", "c", "d", "e"] if captioned else None
    sheet = grid(images, 2, captions, scale)
    plan = layout(images, 2, captioned, scale)
    assert sheet.size == plan.size
    for index, pixels in enumerate(images):
        tile = np.asarray(sheet.crop(plan.box(index)))
        assert tile.shape == (3 * scale, 6 * scale, 3)
        assert np.array_equal(tile[::scale, ::scale], pixels)


def test_a_grid_is_white_between_its_tiles():
    assert grid(colours(2), 2).getpixel((0, 0)) == (255, 255, 255)


def test_a_grid_is_never_wider_than_its_pictures():
    assert layout(colours(2), 8).columns == 2


def test_captions_stand_below_their_tile_and_not_upon_it():
    images = colours(1, 32, 96)
    sheet = np.asarray(grid(images, 1, ["a fox"]))
    left, top, right, bottom = layout(images, 1, True).box(0)
    assert (sheet[top:bottom, left:right] == images[0]).all()
    assert (sheet[bottom:] < 200).any()


def test_long_text_breaks_between_words_and_ends_in_an_ellipsis():
    lines = wrapped("a very long caption about a red fox in deep snow", font(12), 70, 2)
    assert len(lines) == 2 and lines[1].endswith("…")
    assert all(font(12).getlength(line) <= 70 for line in lines)


def test_text_that_fits_is_left_alone():
    assert shortened("fox", font(12), 100) == "fox"
    assert wrapped("red fox", font(12), 200, 2) == ["red fox"]


def test_small_pictures_grow_in_whole_pixels_and_large_ones_shrink():
    small = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8))
    grown = fitted(small, 64)
    assert grown.size == (64, 64)
    assert np.array_equal(np.asarray(grown)[::2, ::2], np.asarray(small))
    assert fitted(Image.new("RGB", (512, 256)), 128).size == (128, 64)


def test_a_picture_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "a.png"
    write(Image.new("RGB", (2, 2)), path)
    before = path.read_bytes()
    monkeypatch.setattr(Image.Image, "save", lambda self, to, **_: (to.write(b"half"), 1 / 0))
    with pytest.raises(ZeroDivisionError):
        write(Image.new("RGB", (4, 4)), path)
    assert path.read_bytes() == before and [file.name for file in path.parent.iterdir()] == ["a.png"]
