"""What a start stores for the next one, and that nothing stale is ever believed."""

import json
import logging
import os

import numpy as np
import pytest
from support.board import put_board

from lun.data.index import store
from lun.data.index.columns_file import read_columns, write_columns
from lun.data.layouts import spread
from lun.data.local import Local
from lun.data.metadata.caption_files import CaptionReader


@pytest.fixture
def root(tmp_path):
    return put_board(tmp_path / "set", {str(i): {"path": f"{i}.png", "tags": ["x", f"t{i}"]} for i in range(5)})


@pytest.fixture
def read(monkeypatch):
    """The descriptions that were opened."""
    opened: list[str] = []
    original = spread.read_files
    monkeypatch.setattr(spread, "read_files", lambda root, files: opened.extend(files) or original(root, files))
    return opened


def captions(root):
    data = Local(str(root))
    return {data.name(i): data.caption(i) for i in range(len(data))}


def test_a_second_start_opens_no_description(root, read):
    first = captions(root)
    read.clear()
    assert captions(root) == first
    assert read == []


def test_a_second_start_says_so(root, caplog):
    captions(root)
    with caplog.at_level(logging.INFO):
        captions(root)
    assert "board JSON, 5 files (known from an earlier start)" in caplog.text


def test_only_what_changed_is_read_again(root, read):
    captions(root)
    read.clear()
    put_board(root, {"2": {"path": "2.png", "tags": ["new tag"]}, "7/a": {"path": "a.png", "tags": ["x", "late"]}})
    (root / "metadata" / "4.json").unlink()
    assert captions(root) == {
        "0.png": "t0, x",
        "1.png": "t1, x",
        "2.png": "new tag",
        "3.png": "t3, x",
        "a.png": "late, x",
    }
    assert read == ["metadata/2.json", "metadata/7/a.json"]


def test_a_file_of_the_same_size_with_another_time_is_read_again(root):
    captions(root)
    file = root / "metadata" / "1.json"
    old = file.stat()
    file.write_text(json.dumps({"path": "1.png", "tags": ["y", "t1"]}))
    os.utime(file, ns=(old.st_atime_ns, old.st_mtime_ns + 1))
    assert captions(root)["1.png"] == "t1, y"


def test_a_broken_description_is_remembered_as_broken(root, read):
    (root / "metadata" / "1.json").write_text("{")
    assert "1.png" not in captions(root)
    read.clear()
    assert "1.png" not in captions(root)
    assert read == []


@pytest.mark.parametrize("harm", ["cut", "garbage", "empty", "zeros"])
def test_a_damaged_index_is_made_anew(root, harm):
    expected = captions(root)
    path = store.index_path(root, "board")
    data = path.read_bytes()
    damaged = {"cut": data[:-64], "garbage": b"x" * 500, "empty": b"", "zeros": data[:12] + bytes(len(data) - 12)}
    path.write_bytes(damaged[harm])
    assert captions(root) == expected
    assert read_columns(path) is not None


def test_a_cache_that_cannot_be_written_costs_only_time(root, monkeypatch, tmp_path, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LUN_CACHE", str(tmp_path / "file"))
    with caplog.at_level(logging.INFO):
        assert len(captions(root)) == 5
    assert "cannot be written" in caplog.text


def test_two_folders_of_one_name_have_two_indexes(tmp_path):
    assert store.index_path(tmp_path / "a" / "set", "x") != store.index_path(tmp_path / "b" / "set", "x")


def test_columns_come_back_as_they_were_written(tmp_path):
    columns = {
        "a": np.arange(5),
        "b": np.zeros((3, 2), np.float32),
        "c": np.zeros(0, np.uint8),
        "d": np.array([True, False]),
    }
    write_columns(tmp_path / "x", columns)
    found = read_columns(tmp_path / "x")
    assert found is not None
    assert found.keys() == columns.keys()
    for name, column in columns.items():
        assert found[name].dtype == column.dtype
        assert np.array_equal(found[name], column)
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_a_jsonl_that_grew_is_read_again(tmp_path):
    for name in "ab":
        put_board(tmp_path, {name: {"path": f"{name}.png", "tags": []}})
    file = tmp_path / "posts.jsonl"
    file.write_text('{"path": "a.png", "text": "one"}\n')
    assert len(Local(str(tmp_path), layout="jsonl")) == 1
    with file.open("a") as lines:
        lines.write('{"path": "b.png", "text": "two"}\n')
    data = Local(str(tmp_path), layout="jsonl")
    assert [data.caption(i) for i in range(2)] == ["one", "two"]


def test_caption_files_are_read_once_for_their_tags(tmp_path, monkeypatch):
    for name in "ab":
        put_board(tmp_path, {name: {"path": f"{name}.png", "tags": []}})
        (tmp_path / f"{name}.txt").write_text(f"{name}, x")
    params = {"data_root": str(tmp_path), "layout": "flat", "metadata_params": {"require_tags": ["x"]}}
    assert len(Local(**params)) == 2
    (tmp_path / "b.txt").write_text("b, changed")
    opened = []
    monkeypatch.setattr(CaptionReader, "__call__", lambda self, path: opened.append(path.name) or "b, changed")
    assert Local(**params).names() == ["a.png"]
    assert opened == ["b.txt"]
