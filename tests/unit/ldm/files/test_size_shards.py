"""Weights in files of limited size."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ldm.errors import Fault
from ldm.files.size_shards import bytes_of, write_shards

STATE = {name: torch.full((100,), float(index)) for index, name in enumerate("abcde")}


@pytest.mark.parametrize(
    ("size", "amount"),
    [(7, 7), ("7", 7), ("2GB", 2 * 10**9), ("1.5 mb", 1_500_000), ("300KB", 300_000), ("8B", 8), ("1TB", 10**12)],
)
def test_a_size_is_a_number_of_bytes_or_has_a_unit(size: int | str, amount: int) -> None:
    assert bytes_of(size, "x") == amount


@pytest.mark.parametrize("size", ["", "0", "0GB", "-1GB", "2GiB", "big", "GB", 0, -5, True])
def test_anything_else_is_no_size(size: int | str) -> None:
    with pytest.raises(Fault, match="is no size of a file"):
        bytes_of(size, "x")


def test_a_file_takes_no_more_than_its_limit_and_the_index_finds_all_tensors(tmp_path: Path) -> None:
    write_shards(tmp_path, "model", STATE, {"format": "pt"}, {"a": torch.float16}, 900)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    files = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    assert sorted(set(index["weight_map"].values())) == files == sorted(p.name for p in tmp_path.glob("*.safetensors"))
    assert index["metadata"]["total_size"] == 4 * 400 + 200
    for name, file in index["weight_map"].items():
        assert torch.equal(load_file(tmp_path / file)[name].float(), STATE[name])


def test_a_tensor_over_the_limit_takes_a_file_of_its_own(tmp_path: Path) -> None:
    write_shards(tmp_path, "model", STATE, {}, {}, 1)
    assert len(list(tmp_path.glob("*.safetensors"))) == 5


@pytest.mark.parametrize("limit", [None, 2000])
def test_what_fits_is_one_file_without_an_index(tmp_path: Path, limit: int | None) -> None:
    write_shards(tmp_path, "model", STATE, {}, {}, limit)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
