"""Weights files and what passes for them."""

import os
import pickle
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from ldm.errors import Fault
from ldm.files.sniff import readable_size, reading, sniff

TENSORS = {"a": torch.arange(300.0)}


@pytest.fixture
def good(tmp_path: Path) -> dict[str, bytes]:
    save_file(TENSORS, tmp_path / "s")
    torch.save(TENSORS, tmp_path / "z")
    torch.save(TENSORS, tmp_path / "l", _use_new_zipfile_serialization=False)
    return {
        "safetensors": (tmp_path / "s").read_bytes(),
        "zip": (tmp_path / "z").read_bytes(),
        "legacy": (tmp_path / "l").read_bytes(),
    }


def fault_of(path: Path, content: bytes) -> Fault:
    path.write_bytes(content)
    with pytest.raises(Fault) as caught:
        sniff(path)
    return caught.value


@pytest.mark.parametrize("kind", ["safetensors", "zip", "legacy"])
def test_a_good_file_is_known_whatever_its_name(good: dict[str, bytes], kind: str, tmp_path: Path) -> None:
    path = tmp_path / "model.txt"
    path.write_bytes(good[kind])
    assert sniff(path) == kind


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "an empty file"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4265380512\n", "a git-lfs pointer"),
        (b"\n <!DOCTYPE html><html></html>", "a web page"),
        (b'{"error": "not found"}', "a JSON text"),
        (b"\0" * 600, "an unfinished download"),
        (b"GGUF\x03\0\0\0", "a GGUF file"),
        (b"hello, this is text", "no format that is known here"),
        (struct.pack("<Q", 40) + b"{not json".ljust(40), "a damaged header"),
    ],
)
def test_what_is_no_weights_file_is_named(content: bytes, words: str, tmp_path: Path) -> None:
    fault = fault_of(tmp_path / "model.ckpt", content)
    assert fault.id == "MOD02"
    assert words in fault.what


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.safetensors")
    with pytest.raises(Fault, match="no ordinary file"):
        sniff(tmp_path / "model.safetensors")


def test_a_git_lfs_pointer_tells_the_real_size(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4265380512\n"
    assert "4265380512 bytes" in fault_of(tmp_path / "model.ckpt", pointer).why


@pytest.mark.parametrize("kept", [20, 200, -1])
def test_a_truncated_safetensors_file_is_refused(good: dict[str, bytes], kept: int, tmp_path: Path) -> None:
    fault = fault_of(tmp_path / "model.safetensors", good["safetensors"][:kept])
    assert fault.id == "MOD02"
    assert "truncated" in fault.what or "cut off" in fault.what


def test_a_safetensors_file_with_bytes_after_its_end_is_refused(good: dict[str, bytes], tmp_path: Path) -> None:
    assert "3 bytes too many" in fault_of(tmp_path / "model.safetensors", good["safetensors"] + b"xyz").what


def test_a_truncated_torch_file_is_refused(good: dict[str, bytes], tmp_path: Path) -> None:
    assert "truncated torch file" in fault_of(tmp_path / "model.ckpt", good["zip"][:-100]).what


def test_a_bare_pickle_is_refused_as_code(tmp_path: Path) -> None:
    assert fault_of(tmp_path / "model.ckpt", pickle.dumps({"a": 1}, protocol=4)).id == "MOD05"


@pytest.mark.parametrize(
    ("size", "text"),
    [(999, "999 bytes"), (1000, "1.0 kB"), (999_999, "1000.0 kB"), (4_265_380_512, "4.3 GB"), (10**15, "1000.0 TB")],
)
def test_sizes_read_as_people_write_them(size: int, text: str) -> None:
    assert readable_size(size) == text


def test_whatever_a_reader_raises_is_a_file_that_is_not_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.ckpt"
    file.touch()
    with pytest.raises(Fault, match="is not a whole checkpoint") as error, reading(file):
        raise ZeroDivisionError("by a size of 0\nand more")
    assert error.value.why == "ZeroDivisionError: by a size of 0"
    with pytest.raises(Fault, match="known"), reading(file):
        raise Fault("MOD05", "known")
