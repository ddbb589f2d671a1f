"""Cutting pictures and masks alike."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.images.decode import header_size
from lun.data.images.loss_masks import mask_file
from lun.data.local import Local


def test_the_size_of_a_turned_picture_is_that_of_the_upright_one(tmp_path: Path):
    image, exif = Image.new("RGB", (6, 4)), Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "a.jpg", exif=exif)
    assert header_size(tmp_path / "a.jpg") == (4, 6)


def test_a_header_that_cannot_be_read_is_named(tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"nothing")
    with pytest.raises(Fault, match=r"DAT06.*a\.png"):
        header_size(tmp_path / "a.png")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One picture, white on the left in its mask and opaque on the left in its alpha."""
    for name in ("img", "mask", "txt"):
        (tmp_path / name).mkdir()
    alpha = np.zeros((4, 8, 4), np.uint8)
    alpha[:, :4, 3] = 255
    Image.fromarray(alpha).save(tmp_path / "img/a.png")
    Image.fromarray(alpha[..., 3]).save(tmp_path / "mask/a.png")
    (tmp_path / "txt/a.txt").write_text("a")
    return tmp_path


@pytest.mark.parametrize("kind", ["folder", "alpha"])
@pytest.mark.parametrize("flip_p", [0.0, 1.0])
def test_a_mask_is_cut_and_mirrored_with_its_picture(folder: Path, kind, flip_p):
    local = Local(str(folder), mask=kind, flip_p=flip_p)
    example = local.example(0, Draws(0, 0), (8, 4))
    left = torch.zeros(4, 8, dtype=torch.uint8)
    left[:, :4] = 255
    assert torch.equal(example["mask"], left.flip(1) if flip_p else left)


def test_a_picture_without_a_mask_has_none(folder: Path):
    (folder / "mask/a.png").unlink()
    assert "mask" not in Local(str(folder), mask="folder").example(0, Draws(0, 0))


def test_masks_lie_beside_the_pictures_folder_at_any_depth(tmp_path: Path):
    (tmp_path / "mask/deep").mkdir(parents=True)
    (tmp_path / "mask/deep/a.webp").touch()
    assert mask_file(tmp_path / "img/deep/a.jpg", tmp_path) == tmp_path / "mask/deep/a.webp"
    assert mask_file(tmp_path / "img/a.jpg", tmp_path) is None
