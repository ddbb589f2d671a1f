"""What files are like, and which of them look alike."""

import io

import numpy as np
import pytest
from PIL import Image, ImageFilter

from lun.data.images.difference_hash import difference_hash
from lun.data.local import Local
from lun.inspect.looks import beyond_copies, kinds_of, looks_of
from lun.inspect.view import DatasetView


def blobs(seed: int, size: tuple[int, int] = (120, 90)) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC)


KINDS = {
    "transparent.png": ("transparent", lambda: blobs(0).convert("RGBA")),
    "palette.gif": ("palette", lambda: blobs(0).convert("P")),
    "cmyk.jpg": ("CMYK", lambda: blobs(0).convert("CMYK")),
    "deep.png": ("16 bits", lambda: Image.fromarray(np.full((4, 4), 40000, np.uint16))),
    "deep.tiff": ("16 bits", lambda: Image.fromarray(np.full((4, 4), 40000, np.uint16))),
    "grey.png": ("greyscale", lambda: blobs(0).convert("L")),
}


@pytest.mark.parametrize("name", KINDS)
def test_files_that_need_care_are_told_by_their_header(tmp_path, name):
    told, make = KINDS[name]
    made = make()
    if told == "transparent":
        made.putpixel((0, 0), (0, 0, 0, 0))
    made.save(tmp_path / name)
    assert any(kind.startswith(told) for kind in kinds_of(tmp_path / name))


def test_animations_and_turned_pictures_are_told(tmp_path):
    blobs(0).save(tmp_path / "a.gif", save_all=True, append_images=[blobs(1)])
    assert "animated (first frame)" in kinds_of(tmp_path / "a.gif")
    turned = Image.Exif()
    turned[0x0112] = 6
    blobs(0).save(tmp_path / "b.jpg", exif=turned)
    assert kinds_of(tmp_path / "b.jpg") == ["turned by EXIF"]


def test_a_plain_photograph_needs_no_care(tmp_path):
    blobs(0).save(tmp_path / "a.jpg")
    (tmp_path / "b.jpg").write_bytes(b"no picture")
    assert kinds_of(tmp_path / "a.jpg") == kinds_of(tmp_path / "b.jpg") == []


def test_smaller_compressed_and_blurred_copies_look_alike_and_others_do_not(tmp_path):
    blobs(1).save(tmp_path / "a.png")
    blobs(1).resize((60, 45)).save(tmp_path / "b.jpg", quality=50)
    blobs(1).filter(ImageFilter.GaussianBlur(2)).save(tmp_path / "c.webp")
    for seed in range(2, 9):
        blobs(seed).save(tmp_path / f"other{seed}.png")
    data = DatasetView(Local(str(tmp_path), size=8, allow_empty_captions=True))
    assert looks_of(data).alike == [["a.png", "b.jpg", "c.webp"]]


def test_empty_pages_are_not_alike(tmp_path):
    Image.new("RGB", (64, 64), "white").save(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(io.BytesIO().getvalue())
    assert difference_hash(tmp_path / "a.png") is None
    assert difference_hash(tmp_path / "b.png") is None


def test_files_of_the_same_bytes_are_told_as_copies_alone():
    assert beyond_copies([["a", "b"], ["c", "d"]], [["a", "b", "e"], ["c", "f"]]) == [["c", "d"]]
