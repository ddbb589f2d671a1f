"""Each filter of `metadata_params`: which pictures it leaves out, and what is said of it."""

import logging

import pytest
from PIL import Image
from support.board import put_board

from ldm.errors import Fault
from lun.data.local import Local

RECORDS = {
    "1": {"path": "1.png", "tags": ["solo", "safe"], "score": 10, "aspect_ratio": 0.5, "rating": "safe"},
    "2": {"path": "2.png", "tags": ["duo", "no"], "score": 20, "width": 100, "height": 50, "created_at": "2020-01-31"},
    "3": {
        "path": "3.png",
        "tags": ["solo", "duo"],
        "score": 30,
        "rating": "explicit",
        "created_at": "2022-09-01T10:00Z",
    },
    "4": {"path": "4.png", "tags": [], "rating": "safe", "created_at": 1600000000},
}


@pytest.fixture
def board(tmp_path):
    return put_board(tmp_path, RECORDS)


def kept(root: object, **params: object) -> str:
    """The names that are left, one digit each."""
    return "".join(name[0] for name in Local(str(root), metadata_params=params).names())


@pytest.mark.parametrize(
    ("params", "left"),
    [
        ({}, "1234"),
        ({"consider_every_nth": 2}, "13"),
        ({"aspect_range": [0.4, 1.4]}, "1"),
        ({"aspect_range": [1.5, 2.0]}, "234"),
        ({"min_size": 5}, "2"),
        ({"min_size": 4}, "1234"),
        ({"abs_min_score": 20}, "23"),
        ({"min_score": 20}, "23"),
        ({"min_score": 20, "tag_bonus_scores": {"solo": 10, "duo": -1}}, "13"),
        ({"min_score": 15, "abs_min_score": 20, "tag_bonus_scores": {"solo": 100}}, "23"),
        ({"tag_bonus_scores": {"solo": 10}}, "1234"),
        ({"ratings": ["safe"]}, "14"),
        ({"ratings": ["safe", "explicit"]}, "134"),
        ({"min_date": "2020-09-13"}, "34"),
        ({"max_date": "2022-09-01"}, "24"),
        ({"min_date": "2020-02-01", "max_date": "2022-09-02"}, "34"),
        ({"blacklist_tags": ["duo", "unheard of"]}, "14"),
        ({"require_tags": ["solo"]}, "13"),
        ({"require_tags": ["solo", "duo"]}, "3"),
        ({"custom_filter": lambda tags: "solo" not in tags}, "24"),
        ({"min_score": None, "blacklist_tags": None}, "1234"),
        ({"score_tags": [5, 25], "blacklist_tags": ["scr25"]}, "124"),
        ({"score_tags": [5, 25], "min_score": 25, "tag_bonus_scores": {"scr5": 6}}, "23"),
    ],
)
def test_a_filter_leaves_out_exactly_what_it_says(board, params, left):
    assert kept(board, **params) == left


def test_the_own_filter_is_asked_before_tags_of_scores_are_added(board):
    heard: list[list[str]] = []
    Local(str(board), metadata_params={"score_tags": [5], "custom_filter": lambda tags: heard.append(tags) or True})
    assert heard == [["solo", "safe"], ["duo", "no"], ["solo", "duo"], []]


def test_every_nth_goes_by_sorted_names_of_descriptions(tmp_path):
    put_board(tmp_path, {f"{i % 3}/{i}": {"path": f"{i}.png", "tags": ["x"]} for i in range(9)})
    data = Local(str(tmp_path), metadata_params={"consider_every_nth": 2})
    assert data.names() == ["0.png", "6.png", "4.png", "2.png", "8.png"]


def test_a_bare_no_in_yaml_is_taken_for_the_word_and_told(board, caplog):
    with caplog.at_level(logging.WARNING):
        assert kept(board, blacklist_tags=[False]) == "134"
    assert "metadata_params.blacklist_tags: YAML reads a bare no or off or false as false" in caplog.text


def test_numbers_among_tags_are_words(tmp_path):
    put_board(tmp_path, {"1": {"path": "1.png", "tags": [2022, "x"]}, "2": {"path": "2.png", "tags": ["x"]}})
    assert kept(tmp_path, blacklist_tags=[2022]) == "2"


def test_an_unknown_key_is_named(board):
    with pytest.raises(Fault) as caught:
        Local(str(board), metadata_params={"min_scroe": 3})
    assert (caught.value.id, caught.value.what) == ("CFG03", "unknown setting metadata_params.min_scroe")


@pytest.mark.parametrize(
    "params",
    [
        {"aspect_range": [2, 1]},
        {"consider_every_nth": 0},
        {"shuffle_tag_p": 1.5},
        {"tag_dropout": {"a": -1}},
        {"min_date": "soon"},
        {"keep_tags": -1},
    ],
)
def test_a_value_out_of_range_is_a_fault(board, params):
    with pytest.raises(Fault) as caught:
        Local(str(board), metadata_params=params)
    assert caught.value.id == "CFG08"


def test_the_header_tells_the_shape_where_the_description_does_not(tmp_path):
    put_board(tmp_path, {"1": {"path": "1.png", "tags": []}, "2": {"path": "2.jpg", "tags": []}}, pictures=False)
    Image.new("RGB", (40, 10)).save(tmp_path / "1.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (40, 10)).save(tmp_path / "2.jpg", exif=exif)
    assert kept(tmp_path, aspect_range=[3, 5]) == "1"
    assert kept(tmp_path, aspect_range=[0.2, 0.3]) == "2"


def test_nothing_left_prints_the_waterfall_and_a_value_that_lets_half_through(board):
    (board / "metadata" / "5.json").write_text("{")
    put_board(board, {"6": {"path": "gone/6.png", "tags": []}}, pictures=False)
    with pytest.raises(Fault) as caught:
        Local(str(board), metadata_params={"aspect_range": [0.6, 2], "min_score": 5000})
    assert str(caught.value) == (
        "error[DAT02]: 0 of 6 images are usable, so there is nothing to train on\n"
        f"  where: {board} (layout: board JSON, 6 files)\n"
        "  why:     6  in the folder\n"
        "         - 1  unreadable descriptions  (first: metadata/5.json)\n"
        "         - 1  image missing  (first: gone/6.png)\n"
        "         - 1  aspect ratio outside 0.6 to 2\n"
        "         - 1  without a score\n"
        "         - 2  score below min_score 5000  <- removed the most\n"
        "         = 0  usable\n"
        "  fix:   lower the filter that removed the most, e.g. "
        "data.params.train.params.metadata_params.min_score=20 (half of them reach it)\n"
        f"         see every reject: python -m lun.inspect {board} --base YAML ..."
    )


def test_the_short_waterfall_is_told_at_every_start(board, caplog):
    with caplog.at_level(logging.INFO):
        kept(board, min_score=20)
    assert [record.getMessage() for record in caplog.records] == [
        f"layout   {board}: board JSON, 4 files",
        "usable   2 of 4: -1 without a score (the most), -1 score below min_score 20",
    ]


def test_filters_work_on_captions_that_are_lists_of_tags(tmp_path):
    for name, text in {"a": "solo, cat", "b": "duo, cat", "c": "solo, dog"}.items():
        Image.new("RGB", (6, 4)).save(tmp_path / f"{name}.png")
        (tmp_path / f"{name}.txt").write_text(text)
    params = {"blacklist_tags": ["duo"], "non_caption_tags": ["solo"], "tag_separator": " "}
    data = Local(str(tmp_path), metadata_params=params)
    assert [(data.name(i), data.caption(i)) for i in range(len(data))] == [("a.png", "cat"), ("c.png", "dog")]
