"""Pictures that are held out and trained on all the same are found by their looks."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lun.callbacks.numbers.held_out_copies import held_out_copies


class Folder:
    def __init__(self, files: list[Path]) -> None:
        self.all = files

    def __len__(self) -> int:
        return len(self.all)

    def path(self, index: int) -> Path:
        return self.all[index]


def picture(file: Path, seed: int, quality: int = 95) -> Path:
    pixels = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((64, 64)).save(file, quality=quality)
    return file


def test_a_picture_saved_anew_is_found_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train = Folder([picture(tmp_path / f"{seed}.jpg", seed) for seed in range(4)])
    held = Folder([picture(tmp_path / "new.jpg", 9), picture(tmp_path / "again.webp", 2, quality=60)])
    twins = [[str(tmp_path / "again.webp"), str(tmp_path / "2.jpg")]]
    assert held_out_copies(train, held, 100) == twins
    assert "DAT10" in caplog.text and "again.webp" in caplog.text
    with caplog.at_level(logging.INFO):
        assert held_out_copies(train, held, 2) == []
    assert "compared with 2 of 4 in training" in caplog.text
    assert held_out_copies(train, held, 0) == []


def test_of_pictures_without_files_nothing_is_said() -> None:
    class Colours:
        def __len__(self) -> int:
            return 3

    colours: Any = Colours()
    assert held_out_copies(colours, colours, 10) == []
