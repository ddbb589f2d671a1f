"""What a slot decides of a picture's pixels, and that what is told of the cut is where it lies."""

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from support.profiles import DISPLAY_P3

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.images.preparation import Preparation

ACROSS, DOWN = 40, 24


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture whose pixels are their places (red: column, green: row), with its mask, and a photograph."""
    root = tmp_path_factory.mktemp("pictures")
    rows, columns = np.mgrid[:DOWN, :ACROSS].astype(np.uint8)
    Image.fromarray(np.stack([columns, rows, columns], -1)).save(root / "places.png")
    Image.fromarray(columns).save(root / "mask.png")
    noise = np.random.default_rng(0).integers(0, 256, (15, 20, 3), dtype=np.uint8)
    Image.fromarray(noise).resize((640, 479), Image.Resampling.BICUBIC).save(root / "photograph.jpg", quality=95)
    Image.new("RGB", (60, 40), "white").save(root / "white.png")
    return root


def made(root: Path, name: str, slot: int, flipped: bool = False, **settings: Any) -> dict[str, Any]:
    prepared = Preparation(**{"size": DOWN, "mask": "folder", **settings})
    draws = Draws(0, slot)
    with Image.open(root / name) as image:
        placed = prepared.placement(image.size, flipped, None, draws)
    pixels: Any = prepared.picture(root / name, root / "mask.png", flipped, None, draws)
    return {**pixels, **placed}


@pytest.mark.parametrize("flipped", [False, True])
@pytest.mark.parametrize("crop", ["centre", "random"])
def test_the_cut_lies_where_it_is_told_and_the_mask_with_it(files: Path, crop: str, flipped: bool) -> None:
    lefts = set()
    for slot in range(80):
        example = made(files, "places.png", slot, flipped, crop=crop)
        top, left = example["crop"]
        whole = np.asarray(Image.open(files / "places.png"))
        whole = whole[:, ::-1] if flipped else whole
        assert np.array_equal(example["image"].numpy(), whole[top : top + DOWN, left : left + DOWN])
        assert np.array_equal(example["mask"].numpy(), whole[top : top + DOWN, left : left + DOWN, 0])
        assert (example["original_size"], example["target_size"]) == ((DOWN, ACROSS), (DOWN, DOWN))
        lefts.add(left)
    assert lefts == {8} if crop == "centre" else len(lefts) > 10 and {0, ACROSS - DOWN} <= lefts


def test_a_cut_of_another_size_is_told_in_pixels_of_the_picture_resized_for_it(files: Path) -> None:
    for slot in range(20):
        example = made(files, "places.png", slot, crop={"resized": [0.3, 0.9]}, size=12)
        top, left = example["crop"]
        pixels = example["image"].numpy().astype(float)
        scale = (pixels[:, -1, 0].mean() - pixels[:, 0, 0].mean()) / 11
        assert 0.3 < (12 * scale / DOWN) ** 2 < 1.0
        for place, shown in ((left, pixels[:, 0, 0]), (top, pixels[0, :, 1])):  # levels and so the scale are rounded
            assert shown.mean() == pytest.approx(scale * (place + 0.5) - 0.5, abs=0.6 + place / 11)


@pytest.mark.parametrize("crop", [True, "random", {"resized": [0.2, 0.5]}])
def test_a_jpeg_that_is_decoded_smaller_is_cut_at_the_same_place(files: Path, crop: Any) -> None:
    for slot in range(6):
        fast, exact = (
            made(files, "photograph.jpg", slot, crop=crop, size=90, mask=None, decode=decode)
            for decode in ("fast", "exact")
        )
        assert fast["crop"] == exact["crop"]
        error = np.square(fast["image"].numpy().astype(float) - exact["image"].numpy()).mean()
        assert error > 0 and 10 * np.log10(255**2 / error) > 34  # dB


def test_exact_is_pillow_in_full(files: Path) -> None:
    with Image.open(files / "photograph.jpg") as image:
        expected = image.resize((64, 64), Image.Resampling.BICUBIC, box=(80, 0, 559, 479))
    found = made(files, "photograph.jpg", 0, size=64, mask=None, decode="exact")["image"]
    assert np.array_equal(found.numpy(), np.asarray(expected))


@pytest.mark.parametrize("crop", [True, "random", {"resized": [0.4, 1]}])
def test_a_turned_picture_shows_none_of_what_came_in_at_its_corners(files: Path, crop: Any) -> None:
    for slot in range(20):
        example = made(files, "white.png", slot, crop=crop, rotate=45, mask=None)
        assert example["image"].min() == 255


def test_a_picture_is_turned_by_its_slot_and_its_mask_with_it(files: Path) -> None:
    examples = [made(files, "places.png", slot, rotate=20) for slot in range(6)]
    assert len({example["image"].numpy().tobytes() for example in examples}) == 6
    for example in examples:
        assert np.abs(example["mask"].numpy().astype(int) - example["image"].numpy()[..., 0]).max() <= 1


JITTER: dict[str, Any] = {"colour_jitter": {"brightness": 0.2}}


def deep_png(file: Path, level: int) -> None:
    """A PNG with RGB of 16 bits, which Pillow cannot write: 160 x 120 pixels of (level, 0, 65535)."""
    rows = (b"\0" + struct.pack(">HHH", level, 0, 65535) * 160) * 120
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 160, 120, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    told = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    file.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(told))


FLAT: dict[str, tuple[Any, dict[str, Any], tuple[int, int, int]]] = {
    "rgb.jpg": (("RGB", (200, 60, 40)), {}, (200, 60, 40)),
    "p3.jpg": (("RGB", (200, 60, 40)), {"icc_profile": DISPLAY_P3}, (217, 42, 23)),
    "p3.png": (("RGB", (200, 60, 40)), {"icc_profile": DISPLAY_P3}, (217, 42, 23)),
    "cmyk.jpg": (("CMYK", (0, 255, 255, 0)), {}, (255, 0, 0)),
    "cmyk.tiff": (("CMYK", (255, 0, 255, 0)), {}, (0, 255, 0)),
    "grey16.png": (("I;16", 40000), {}, (156, 156, 156)),
    "grey16.tiff": (("I;16", 40000), {}, (156, 156, 156)),
    "float.tiff": (("F", 0.5), {}, (128, 128, 128)),
    "clear.png": (("RGBA", (255, 0, 0, 0)), {}, (255, 255, 255)),
    "half.png": (("RGBA", (0, 0, 0, 128)), {}, (127, 127, 127)),
    "clear.webp": (("RGBA", (255, 0, 0, 0)), {"lossless": True, "exact": True}, (255, 255, 255)),
}
"""Pictures of one colour of 160 x 120 pixels, which a JPEG may decode at an eighth, and what they have to become."""


@pytest.mark.parametrize("decode", ["fast", "exact"])
@pytest.mark.parametrize("name", [*FLAT, "deep.png"])
def test_each_way_to_decode_gives_the_colours_of_each_kind_of_file(tmp_path: Path, name: str, decode: Any) -> None:
    if name == "deep.png":
        deep_png(tmp_path / name, 40000)
        colour = (156, 0, 255)
    else:
        (mode, value), options, colour = FLAT[name]
        Image.new(mode, (160, 120), value).save(tmp_path / name, **options)
    image = Preparation(size=12, decode=decode).picture(tmp_path / name, None, False)["image"]
    assert np.abs(image.numpy().astype(int) - colour).max() <= 2


@pytest.mark.parametrize("decode", ["fast", "exact"])
@pytest.mark.parametrize("name", FLAT)
def test_no_way_to_decode_makes_a_picture_of_a_cut_file(tmp_path: Path, name: str, decode: Any) -> None:
    (mode, value), options, _ = FLAT[name]
    Image.new(mode, (160, 120), value).save(tmp_path / name, **options)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(Fault, match="DAT06"):
        Preparation(size=12, decode=decode).picture(tmp_path / name, None, False)


DRAWN: dict[str, Any] = {"crop": "random", "rotate": 3.0, **JITTER}


def test_one_thing_that_is_drawn_does_not_move_another(files: Path) -> None:
    for slot in range(5):
        plain, coloured = (made(files, "places.png", slot, crop="random", **one) for one in ({}, JITTER))
        assert plain["crop"] == coloured["crop"]


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_makes_pictures_vary_and_nothing_else_does(name: str) -> None:
    assert Preparation(**{name: DRAWN[name]}).varied
    assert not Preparation(crop=False, decode="exact", flip_p=0.5).varied


@pytest.mark.parametrize("setting", [*DRAWN.items(), ("crop", {"resized": [0.5, 1]}), ("decode", "exact")])
def test_every_setting_names_its_own_pixels_in_a_cache(setting: tuple[str, Any]) -> None:
    plain = Preparation().identity()
    assert Preparation(**dict([setting])).identity() != plain
    assert Preparation(crop="centre", colour_jitter=None, rotate=0).identity() == plain


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"crop": "left"}, "crop"),
        ({"crop": {}}, "crop"),
        ({"crop": {"resized": [0, 1]}}, "crop"),
        ({"crop": {"resized": [0.9, 0.5]}}, "crop"),
        ({"crop": {"resized": [0.5]}}, "crop"),
        ({"crop": {"resized": [0.5, 1], "ratio": 1}}, "crop"),
        ({"crop": {"resized": [0.5, 1]}, "size": None}, "crop"),
        ({"colour_jitter": {}}, "colour_jitter"),
        ({"colour_jitter": {"hue": 0}}, "colour_jitter"),
        ({"colour_jitter": {"hue": 0.6}}, "colour_jitter"),
        ({"colour_jitter": {"contrast": -0.1}}, "colour_jitter"),
        ({"colour_jitter": {"gamma": 0.1}}, "colour_jitter"),
        ({"rotate": -1}, "rotate"),
        ({"rotate": 46}, "rotate"),
        ({"rotate": float("nan")}, "rotate"),
        ({"rotate": 5, "crop": False}, "rotate"),
        ({"decode": "best"}, "decode"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(settings: dict[str, Any], name: str) -> None:
    with pytest.raises(Fault, match="CFG08") as caught:
        Preparation(**settings)
    assert name in caught.value.what
