"""Tags that occur together, and captions beside what the rules make of them."""

import pytest
from support.board import put_board
from support.runs import make_pictures

from lun.data.local import Local
from lun.inspect.caption_changes import changes_of, compared
from lun.inspect.tags import tagged, together
from lun.inspect.view import DatasetView


@pytest.fixture
def board(tmp_path):
    tags = [["a", "b", "x"], ["a", "x"], ["a", "b", "x"], ["c", "x"]]
    records = {str(i): {"path": f"{i}.png", "tags": some, "score": 10 * i} for i, some in enumerate(tags)}
    return put_board(tmp_path / "set", records)


def test_shares_are_those_of_the_tag_on_the_left(board):
    data = DatasetView(Local(str(board), size=4, metadata_params={}))
    found = together(tagged(data.tags(), []), tagged(data.tags(), []).counts())
    assert found.tags == ["a", "b", "c"]  # x is on every picture and tells nothing
    assert found.shares == [[1.0, 0.6667, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]


def test_pictures_that_are_left_out_do_not_count(board):
    data = DatasetView(Local(str(board), size=4, metadata_params={"min_score": 10}))
    assert tagged(data.tags(), []).counts() == {"x": 3, "a": 2, "b": 1, "c": 1}


def test_without_tags_there_is_nothing_together(tmp_path):
    data = DatasetView(Local(str(make_pictures(tmp_path, 2)), size=8))
    assert together(tagged(data.tags(), []), tagged(data.tags(), []).counts()) is None


def marked(pieces) -> str:
    return " ".join(f"[{piece.text}]" if piece.changed else piece.text for piece in pieces)


def test_what_a_rule_removes_replaces_and_adds_is_marked(board):
    rules = {"non_caption_tags": ["x"], "replacements": {"||b||": "||bee||"}, "score_tags": [20]}
    data = DatasetView(Local(str(board), size=4, metadata_params=rules))
    changes = {change.name: (marked(change.written), marked(change.seen)) for change in changes_of(data, 0)}
    assert changes["0.png"] == ("a [b] [x]", "a [bee]")
    assert changes["2.png"] == ("a [b] [x]", "a [bee] [scr20]")


def test_an_order_of_its_own_is_no_change():
    written, seen = compared(["a", "b", "b"], ["b", "a", "b"])
    assert not any(piece.changed for piece in (*written, *seen))


def test_a_tag_that_comes_twice_on_one_side_is_marked_once():
    written, _ = compared(["a", "a"], ["a"])
    assert marked(written) == "a [a]"


def test_text_captions_are_compared_word_by_word(tmp_path):
    root = make_pictures(tmp_path, 1)
    data = DatasetView(Local(str(root), size=8, captions={"prefix": "photo of "}))
    (change,) = changes_of(data, 0)
    assert marked(change.written) == "red noise 0"
    assert marked(change.seen) == "[photo] [of] red noise 0"
