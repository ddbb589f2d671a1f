"""Columns: what is put in comes out again, in any order and however it was pieced together."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lun.data.metadata.columns import Ragged, Strings
from lun.data.metadata.description import add_record, inside
from lun.data.metadata.picture_table import Table, concatenated
from lun.data.metadata.scores import with_score_tags
from lun.data.metadata.table_builder import Rows

TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=5)  # half pairs of surrogates too
ROW = st.tuples(TEXT, st.lists(st.sampled_from(["a", "b", "ü", "d e"]), max_size=4), st.none() | st.integers(-5, 5))


def table_of(rows):
    made = Rows()
    for path, tags, score in rows:
        made.add(path, tags=tags, numbers={} if score is None else {"score": score})
    return Table.of(made.packed())


def rows_of(table):
    scores = [None if np.isnan(score) else int(score) for score in table.score]
    return [(table.path[row], table.tags_of(row), scores[row]) for row in range(len(table))]


@given(st.lists(TEXT, max_size=8), st.data())
def test_text_comes_back_whole_by_row_by_choice_and_in_a_sweep(texts, data):
    column = Strings.of(texts)
    assert [column[row] for row in range(len(column))] == texts
    assert list(column) == texts
    assert column.empty.tolist() == [not text for text in texts]
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=9)) if texts else []
    assert column.at(np.array(rows, np.int64)) == [texts[row] for row in rows]
    assert list(Strings(column.rows.take(np.array(rows, np.int64)))) == [texts[row] for row in rows]


@given(st.lists(st.lists(ROW, max_size=5), min_size=1, max_size=4))
def test_tables_joined_hold_the_rows_of_all(parts):
    assert rows_of(concatenated([table_of(part) for part in parts])) == [row for part in parts for row in part]


@given(st.lists(ROW, min_size=1, max_size=6), st.data())
def test_rows_can_be_taken_in_any_order(rows, data):
    wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=9))
    assert rows_of(table_of(rows).take(np.array(wanted, np.int64))) == [rows[row] for row in wanted]


@given(st.lists(st.lists(st.integers(0, 3), max_size=4), max_size=6))
def test_sums_go_by_row(lists):
    values = np.array([number for row in lists for number in row], np.int32)
    column = Ragged.of(values, [len(row) for row in lists])
    weights = np.array([1.0, 10.0, 100.0, 0.5])
    assert column.sums(weights).tolist() == [sum(weights[number] for number in row) for row in lists]


@given(st.lists(ROW, max_size=6), st.permutations([3, -1, 2, 5]))
def test_the_highest_threshold_reached_becomes_the_last_tag_whatever_their_order(rows, thresholds):
    expected = []
    for path, tags, score in rows:
        reached = [step for step in thresholds if score is not None and score >= step]
        expected.append((path, [*tags, *([f"scr{max(reached)}"] if reached else [])], score))
    assert rows_of(with_score_tags(table_of(rows), thresholds)) == expected


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(max_size=4), st.lists, max_leaves=6))
def test_whatever_a_description_holds_it_makes_one_row(value):
    made = Rows()
    keys = ("path", "tags", "score", "aspect_ratio", "width", "height", "rating", "created_at", "text", "weight")
    add_record(made, json.loads(json.dumps({"path": "a.png", **dict.fromkeys(keys[1:], value)})), "x.json")
    add_record(made, value, "y.json")
    assert len(Table.of(made.packed())) == 2


@pytest.mark.filterwarnings("error")
def test_a_number_too_great_for_its_column_is_not_known() -> None:
    made = Rows()
    add_record(made, {"path": "a.png", "weight": 1e39, "aspect_ratio": -1e200, "score": 1e200, "width": 1e10}, "x.json")
    table = Table.of(made.packed())
    assert (table.weight[0], table.score[0], table.width[0]) == (1.0, 1e200, 0) and np.isnan(table.aspect[0])


@given(st.text("ab./\\:~", max_size=9), st.sampled_from(["", "sub"]))
def test_no_path_that_is_let_through_climbs_or_is_absolute(path, folder):
    found = inside(path, folder)
    if found is not None:
        assert not found.startswith("/")
        assert ".." not in found.split("/")
