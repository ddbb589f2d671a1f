"""Counting tags."""

from pathlib import Path
from typing import Any

import pytest
from support.board import put_board
from support.runs import make_pictures

from lun.data import tag_counts
from lun.data.local import Local
from lun.data.tag_counts import tag_frequency

RECORDS: dict[str, dict[str, Any]] = {
    "1": {"path": "img/1.png", "tags": ["solo", "pony"], "score": 9},
    "2": {"path": "img/2.png", "tags": ["pony"], "score": 9},
    "3": {"path": "img/3.png", "tags": ["pony", "sketch"], "score": 0},
}


def test_tags_of_the_pictures_that_are_used_are_counted_most_frequent_first(tmp_path: Path) -> None:
    board = put_board(tmp_path / "board", RECORDS)
    found = tag_frequency(Local(str(board), metadata_params={"min_score": 5}))
    assert found == {"board": {"pony": 2, "solo": 1}}
    assert next(iter(found["board"])) == "pony"


def test_text_captions_are_counted_by_what_stands_between_commas(tmp_path: Path) -> None:
    make_pictures(tmp_path / "flat", 2)
    for name, text in (("000", "fox, red background, fox"), ("001", "fox, blue background")):
        (tmp_path / "flat/txt" / f"{name}.txt").write_text(text)
    expected = {"fox": 2, "red background": 1, "blue background": 1}
    assert tag_frequency(Local(str(tmp_path / "flat"))) == {"flat": expected}


def test_large_sets_of_text_files_are_not_opened_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_pictures(tmp_path / "flat", 3)
    monkeypatch.setattr(tag_counts, "READ_AT_MOST", 2)
    assert tag_frequency(Local(str(tmp_path / "flat"))) == {}


def test_other_datasets_have_no_tags() -> None:
    assert tag_frequency([1, 2]) == {}
