"""Descriptions read by several processes: the same bits as by one, and no process left behind."""

import os
import pickle
import subprocess
import sys

import pytest
from support.board import put_board

from lun.data.index.listing import Tree
from lun.data.index.store import index_path
from lun.data.layouts import spread
from lun.data.layouts.board import read_board

RECORDS = {
    "a/1": {"path": "1.png", "tags": ["b", " x", 7, None], "rating": "x", "score": 3},
    "a/2": {"path": "2.png", "tags": "ü, b", "text": ["one\ud800", "two"]},
    "a/3": {"tags": ["late"]},
    "b/1": {"path": "../out.png"},
    "b/2": {"path": "3.png", "tags": ["new", "x"], "rating": "new", "width": 30, "height": 20},
    "c": {"path": "4.png", "created_at": "2020-01-01", "tags": [["no"], "b"]},
}


@pytest.fixture
def root(tmp_path):
    put_board(tmp_path / "set", RECORDS, pictures=False)
    (tmp_path / "set/metadata/a/0.json").write_text("{")
    (tmp_path / "set/metadata/a/22.json").write_text(" " * 70_000 + json_of_deep_lists())
    (tmp_path / "set/metadata/b/gone.json").symlink_to(tmp_path / "nowhere")
    return tmp_path / "set"


def json_of_deep_lists():
    return "[" * 100_000 + "]" * 100_000


@pytest.fixture
def two(monkeypatch):
    """Two processes, even for a handful of files."""
    monkeypatch.setattr(spread, "WORTH_IT", 1)
    monkeypatch.setattr(spread, "available_cpus", lambda: 2)


@pytest.fixture
def started(monkeypatch):
    """Every process that was started."""
    found: list[subprocess.Popen] = []

    class Reader(spread._ReaderProcess):
        def __init__(self):
            super().__init__()
            found.append(self.process)

    monkeypatch.setattr(spread, "_ReaderProcess", Reader)
    return found


def index_of(root):
    """What is stored of a first start."""
    index_path(root, "board").unlink(missing_ok=True)
    read_board(Tree(root))
    return index_path(root, "board").read_bytes()


def test_many_processes_leave_the_same_index_as_one(root, request):
    one = index_of(root)
    request.getfixturevalue("two")
    processes = request.getfixturevalue("started")
    assert index_of(root) == one
    assert len(processes) == 2


def test_what_a_first_start_stored_is_what_the_second_sees(root):
    assert not read_board(Tree(root)).reused
    assert read_board(Tree(root)).reused


def test_broken_files_stand_where_they_are_in_the_order(root, two):
    table = read_board(Tree(root)).table
    assert [table.source[row][9:-5] for row in range(len(table)) if table.problem[row] == 1] == [
        "a/0",
        "a/22",
        "b/gone",
    ]
    assert list(table.source) == sorted(table.source)


def test_few_files_start_no_process(root, started):
    read_board(Tree(root))
    assert started == []


def test_a_process_that_ends_early_loses_nothing(root, two, started, monkeypatch, caplog):
    one = index_of(root)
    monkeypatch.setattr(spread, "_SERVE", "")
    assert index_of(root) == one
    assert "ended early" in caplog.text


def test_an_interruption_leaves_no_process_behind(root, two, started, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(spread.pickle, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_board(Tree(root))
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


def test_a_process_that_nobody_asks_any_more_ends_by_itself():
    reader = spread._ReaderProcess()
    reader.process.stdin.close()
    assert reader.process.wait(timeout=200) == 0
    reader.process.stdout.close()


def test_a_process_that_nobody_listens_to_ends_without_a_word(tmp_path, capfd):
    reader = spread._ReaderProcess()
    reader.process.stdout.close()
    with reader.process.stdin as asks:
        pickle.dump((str(tmp_path), ["x.json"]), asks)
    assert reader.process.wait(timeout=200) == 0
    assert capfd.readouterr().err == ""


def test_a_reader_loads_neither_torch_nor_numpy():
    program = "import sys, lun.data.layouts.reader; print({'torch', 'numpy'} & sys.modules.keys())"
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", program], env=paths, capture_output=True).stdout == b"set()\n"
