"""Pictures are had of files, of shards and of what code makes, alone and in several sets."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from support.packable import add

from lun.data.building import build_dataset
from lun.data.packed import PackedSet
from lun.data.whole_pictures import whole_pictures
from lun.pack.command import run


class Grey:
    """Two pictures that no file holds."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"image": torch.full((8, 8, 3), index - 0.5), "caption": ""}


def greys(pictures: list[Image.Image]) -> list[np.ndarray]:
    return [np.asarray(one) for one in pictures]


def test_what_code_makes_is_seen_as_it_is_read() -> None:
    assert [one.max() for one in greys(list(whole_pictures(Grey(), [1, 0], 64)))] == [191, 64]


def test_files_and_shards_and_several_sets_give_the_same_whole_pictures(tmp_path: Path) -> None:
    folder = add(tmp_path / "loose", range(5))
    assert run([str(tmp_path / "loose"), "-o", str(tmp_path / "packed"), "--order", "given"]) == 0
    own = greys(list(whole_pictures(folder, [0, 3], 16)))
    assert own[0].shape == (16, 16, 3)  # whole, where training cuts it to 8
    params = {"packed": {"data_root": str(tmp_path / "packed")}, "loose": {"data_root": str(tmp_path / "loose")}}
    targets = {"packed": "lun.data.packed.PackedSet", "loose": "lun.data.local.Local"}
    sets = {name: {"target": targets[name], "params": {**params[name], "size": 8}, "weight": 1} for name in params}
    for dataset, places in (
        (PackedSet(**params["packed"], size=8), [0, 3]),
        (build_dataset({"sets": sets}, "train"), [0, 8]),
    ):
        for one, other in zip(own, greys(list(whole_pictures(dataset, places, 16))), strict=True):
            np.testing.assert_array_equal(one, other)
