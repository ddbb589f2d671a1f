"""Decoding: every kind of file becomes upright RGB, or a fault that names it."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, PngImagePlugin
from PIL.Image import Resampling

from ldm.errors import Fault
from lun.data.images.cuts import Middle, Whole
from lun.data.images.decode import RESAMPLING, decode, fit, flip, header_size, to_bytes

WHITE = (255, 255, 255)


def saved(folder: Path, name: str, image: Image.Image, **options: object) -> Path:
    image.save(folder / name, **options)
    return folder / name


def noisy(size: int = 64) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8))


def palette(*colours: tuple[int, int, int], index: int = 0) -> Image.Image:
    image = Image.new("P", (4, 4), index)
    image.putpalette([channel for colour in colours for channel in colour])
    return image


def why(path: Path) -> str:
    with pytest.raises(Fault) as caught:
        decode(path)
    assert caught.value.id == "DAT06"
    assert str(path) in caught.value.what
    return caught.value.why


@pytest.mark.parametrize(
    ("image", "name", "options", "pixel"),
    [
        (Image.new("RGB", (4, 4), (1, 2, 3)), "rgb.png", {}, (1, 2, 3)),
        (Image.new("RGB", (4, 4), (1, 2, 3)), "rgb.bmp", {}, (1, 2, 3)),
        (Image.new("RGB", (4, 4), (1, 2, 3)), "rgb.webp", {"lossless": True}, (1, 2, 3)),
        (Image.new("L", (4, 4), 9), "grey.png", {}, (9, 9, 9)),
        (Image.new("1", (4, 4), 1), "bits.png", {}, WHITE),
        (palette((0, 0, 0), (255, 0, 0), index=1), "palette.png", {}, (255, 0, 0)),
        (Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "cmyk.jpg", {}, (255, 0, 0)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_opaque_picture_keeps_its_colours(tmp_path, image, name, options, pixel):
    picture = decode(saved(tmp_path, name, image, **options))
    assert picture.mode == "RGB"
    assert np.abs(np.subtract(picture.getpixel((0, 0)), pixel)).max() <= 2


@pytest.mark.parametrize(
    ("image", "name", "options", "pixel"),
    [
        (Image.new("RGBA", (4, 4), (0, 0, 0, 0)), "rgba.png", {}, WHITE),
        (Image.new("RGBA", (4, 4), (0, 0, 0, 128)), "half.png", {}, (127, 127, 127)),
        (Image.new("RGBA", (4, 4), (0, 0, 0, 0)), "rgba.webp", {"lossless": True}, WHITE),
        (Image.new("LA", (4, 4), (0, 0)), "la.png", {}, WHITE),
        (palette((0, 0, 0), (255, 0, 0), index=1), "one-clear.png", {"transparency": 1}, WHITE),
        (palette((0, 0, 0), (255, 0, 0), index=1), "half-clear.png", {"transparency": b"\xff\x80"}, (255, 127, 127)),
        (Image.new("RGB", (4, 4), (1, 2, 3)), "rgb-key.png", {"transparency": (1, 2, 3)}, WHITE),
        (Image.new("L", (4, 4), 9), "grey-key.png", {"transparency": 9}, WHITE),
        (Image.new("1", (4, 4), 0), "bit-key.png", {"transparency": 0}, WHITE),
        (Image.fromarray(np.full((4, 4), 300, np.uint16)), "deep-key.png", {"transparency": 300}, WHITE),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_transparent_parts_lie_over_white(tmp_path, image, name, options, pixel):
    assert decode(saved(tmp_path, name, image, **options)).getpixel((0, 0)) == pixel


@pytest.mark.parametrize(("deep", "grey"), [(0, 0), (40000, 156), (65535, 255)])
def test_sixteen_bits_are_scaled_and_not_clipped(tmp_path, deep, grey):
    path = saved(tmp_path, "deep.png", Image.fromarray(np.full((4, 4), deep, np.uint16)))
    assert decode(path).getpixel((0, 0)) == (grey, grey, grey)


def test_a_picture_taken_on_its_side_is_turned_upright(tmp_path):
    image = Image.new("RGB", (4, 2))
    image.putpixel((0, 1), WHITE)  # bottom left; turned clockwise it is top left
    exif = Image.Exif()
    exif[0x0112] = 6
    picture = decode(saved(tmp_path, "side.png", image, exif=exif))
    assert picture.size == (2, 4)
    assert picture.getpixel((0, 0)) == WHITE


def test_broken_exif_does_not_cost_the_picture(tmp_path):
    path = saved(tmp_path, "camera.png", Image.new("RGB", (4, 8)), exif=b"Exif\0\0garbage of a camera")
    assert decode(path).size == (4, 8)


@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "webp"])
def test_a_truncated_file_is_called_truncated(tmp_path, kind):
    path = saved(tmp_path, f"cut.{kind}", noisy())
    whole = path.read_bytes()
    for kept in (30, len(whole) // 2):
        path.write_bytes(whole[:kept])
        assert why(path).startswith("truncated or damaged")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "empty file (0 bytes)"),
        (b"<!doctype html><p>404</p>", 'not an image (starts with "<!doctype html><p>404</p": a download error page)'),
        (
            b"version https://git-lfs.github.com/spec/v1",
            "not an image but a git-lfs pointer: git lfs pull brings the file",
        ),
        (b"\x00\x01\x02\x03", "not an image (starts with the bytes 00 01 02 03)"),
        (b"hello\nworld", 'not an image (starts with "hello")'),
    ],
)
def test_what_is_no_image_is_told_by_its_first_bytes(tmp_path, content, told):
    path = tmp_path / "x.png"
    path.write_bytes(content)
    assert why(path) == told


def test_a_vanished_file_is_told_as_such(tmp_path):
    assert why(tmp_path / "gone.png") == "No such file or directory"


def test_very_large_pictures_and_long_png_texts_are_allowed():
    assert Image.MAX_IMAGE_PIXELS == 93_312_000_000
    assert PngImagePlugin.MAX_TEXT_CHUNK == 10 * 1024 * 1024


def middle(image: Image.Image, target: tuple[int, int] | None) -> Image.Image:
    return fit(image, target, Middle().box(image.size, target), Resampling.BICUBIC)


def test_cropping_keeps_proportions_and_squeezing_keeps_the_edges():
    image = Image.new("RGB", (12, 4))
    image.paste("white", (4, 0, 8, 4))
    assert np.asarray(middle(image, (4, 4))).min() == 255
    assert np.asarray(fit(image, (4, 4), Whole().box(image.size, (4, 4)), Resampling.BICUBIC)).min() < 50


def test_a_picture_of_the_right_size_keeps_its_pixels():
    image = noisy(16)
    assert np.array_equal(np.asarray(fit(image, (16, 16), (0, 0, 16, 16), Resampling.LANCZOS)), np.asarray(image))


@pytest.mark.parametrize(("cut", "size"), [(Middle(), (4, 4)), (Whole(), (12, 4))])
def test_without_a_size_the_scale_is_kept(cut, size):
    assert fit(Image.new("RGB", (12, 4)), None, cut.box((12, 4), None), Resampling.BICUBIC).size == size


def test_shrinking_in_one_call_is_close_to_cropping_first():
    ramp = np.linspace(0, 255, 300).astype(np.uint8)
    image = Image.fromarray(np.stack([np.tile(ramp, (200, 1))] * 3, -1))
    slow = image.crop((50, 0, 250, 200)).resize((16, 16), Resampling.BICUBIC)
    fast = middle(image, (16, 16))
    assert np.abs(np.asarray(slow).astype(int) - np.asarray(fast).astype(int)).max() <= 2


def test_linear_is_the_old_name_of_bilinear():
    assert RESAMPLING["linear"] is RESAMPLING["bilinear"] is Resampling.BILINEAR


def test_pictures_travel_as_bytes_with_channels_last():
    image = Image.new("RGB", (3, 2), (0, 255, 51))
    array = to_bytes(image)
    assert array.shape == (2, 3, 3)
    assert array.dtype == torch.uint8
    assert array[0, 0].tolist() == [0, 255, 51]


def test_flipping_mirrors_left_to_right():
    array = torch.arange(6.0).reshape(1, 2, 3)
    assert torch.equal(flip(array), array[:, [1, 0]])


def bomb(path, side):
    """A PNG that says it has side x side pixels, in a few bytes."""
    Image.new("1", (8, 8)).save(path)
    data = bytearray(path.read_bytes())
    data[16:24] = struct.pack(">II", side, side)
    data[29:33] = struct.pack(">I", zlib.crc32(data[12:29]))
    path.write_bytes(data)


@pytest.mark.parametrize("side", [9000, 60000])
def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path, side):
    bomb(tmp_path / "a.png", side)
    for read in (decode, header_size):
        with pytest.raises(Fault) as caught:
            read(tmp_path / "a.png")
        assert caught.value.id == "DAT06"
        assert caught.value.why.startswith(f"a decompression bomb: {side} x {side} pixels in a file of")


def photograph(size):
    """Smooth noise, which JPEG keeps well."""
    noise = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


@pytest.mark.parametrize("orientation", [1, 6])
def test_a_jpeg_is_decoded_smaller_where_that_is_enough(tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    photograph((640, 480)).save(tmp_path / "a.jpg", quality=95, exif=exif)
    whole, small = decode(tmp_path / "a.jpg"), decode(tmp_path / "a.jpg", (110, 100))
    assert small.size == (whole.width // 4, whole.height // 4)
    assert decode(tmp_path / "a.jpg", (400, 300)).size == whole.size


def test_a_jpeg_decoded_smaller_looks_the_same_in_the_end(tmp_path):
    photograph((640, 480)).save(tmp_path / "a.jpg", quality=95)
    ends = [
        np.asarray(middle(decode(tmp_path / "a.jpg", target), (96, 96))).astype(float) for target in (None, (96, 96))
    ]
    error = np.square(ends[0] - ends[1]).mean()
    assert 10 * np.log10(255**2 / error) > 35  # dB; 35 is what JPEG itself costs at quality 85


def test_of_several_frames_the_first_counts(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    frames[0].save(tmp_path / "a.tiff", save_all=True, append_images=frames[1:])
    for name in ("a.gif", "a.tiff"):
        assert decode(tmp_path / name).getpixel((0, 0)) == (255, 0, 0)
