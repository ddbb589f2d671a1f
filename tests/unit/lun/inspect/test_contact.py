"""What the sheet shows of a picture is what training sees of it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from lun.data.local import Local
from lun.inspect.contact import first_examples
from lun.inspect.view import DatasetView


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One green picture whose red tells the column."""
    root = tmp_path_factory.mktemp("columns")
    columns = np.tile(2 * np.arange(120, dtype=np.uint8), (40, 1))
    Image.fromarray(np.stack([columns, np.full_like(columns, 255), columns], -1)).save(root / "a.png")
    (root / "a.txt").write_text("a")
    return root


@pytest.mark.parametrize(
    ("crop", "size"), [("centre", 20), ("random", 20), ("random", None), ({"resized": [0.2, 0.6]}, 20)]
)
def test_what_is_not_in_a_shadow_is_what_is_seen(folder: Path, crop: Any, size: int | None) -> None:
    for seed in range(6):
        view = DatasetView(Local(str(folder), size=size, crop=crop, flip_p=0.0))
        ((seen,), broken) = first_examples(view, seed, None)
        lit = np.flatnonzero(np.asarray(seen.whole)[..., 1].max(axis=0) > 200)
        red = np.asarray(seen.image)[0, :, 0].astype(float) / 2
        assert broken == []
        assert (red[0], red[-1]) == pytest.approx((lit[0], lit[-1]), abs=1.5)


def test_what_a_smaller_cut_leaves_out_is_counted(folder: Path) -> None:
    assert DatasetView(Local(str(folder), crop={"resized": [0.2, 0.6]})).drawn_share == pytest.approx(0.4)
    assert DatasetView(Local(str(folder), crop="random")).drawn_share == 1.0
