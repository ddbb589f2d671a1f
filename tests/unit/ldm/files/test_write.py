"""Files that are whole, and the same each time."""

from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from ldm.files.sniff import sniff
from ldm.files.write import DTYPES, write_safetensors

METADATA = {"title": 'é "x"\n', "format": "pt", "author": "a"}


def tensors() -> dict[str, torch.Tensor]:
    made = {f"t{i}": torch.arange(5).to(dtype) for i, dtype in enumerate(DTYPES)}
    return made | {"scalar": torch.tensor(2.5), "empty": torch.zeros(0, 3), "view": torch.arange(6.0).view(2, 3).T}


def test_the_library_reads_what_was_written(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x", tensors(), METADATA)
    read = load_file(tmp_path / "x")
    assert read.keys() == tensors().keys()
    assert all(torch.equal(read[key], value) and read[key].dtype == value.dtype for key, value in tensors().items())
    with safe_open(tmp_path / "x", "pt") as file:
        assert file.metadata() == METADATA
    assert sniff(tmp_path / "x") == "safetensors"


def test_the_same_tensors_give_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "a", tensors(), METADATA)
    write_safetensors(tmp_path / "b", dict(reversed(tensors().items())), dict(reversed(METADATA.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_failed_write_leaves_the_file_that_was_there(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x", {"a": torch.ones(1)})
    before = (tmp_path / "x").read_bytes()
    with pytest.raises(KeyError):
        write_safetensors(tmp_path / "x", {"a": torch.ones(1, dtype=torch.complex64)})
    assert (tmp_path / "x").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x"]
