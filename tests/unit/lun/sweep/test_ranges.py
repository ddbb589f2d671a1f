"""What is a range, what is nearly one, and what is none."""

import pytest

from ldm.errors import Fault
from lun.sweep.ranges import NumberRange, range_of


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1e-6..1e-4:log", NumberRange(1e-6, 1e-4, True)),
        ("4..64", NumberRange(4, 64)),
        ("1..2.", NumberRange(1.0, 2.0)),
        ("-1.5...5", NumberRange(-1.5, 0.5)),
        ("0..1", NumberRange(0, 1)),
    ],
)
def test_two_numbers_are_a_range_of_whole_numbers_where_both_are_whole(text: str, meant: NumberRange) -> None:
    found = range_of(text, "a.b")
    assert found == meant and found.is_whole == ("." not in text.replace("..", "") and "e" not in text)


@pytest.mark.parametrize("text", ["", "1e-5", "../data", "../../3x", "a..b", "[1,2]", "'1..2'", "runs/..", "x..y/1"])
def test_other_values_are_none(text: str) -> None:
    assert range_of(text, "a.b") is None


@pytest.mark.parametrize(
    "text",
    ["2..1", "1..1", "0..1:log", "-1..1:log", "1..2:lin", "1..b", "a..3", "1..inf", "1..", "1..2..3", "1..1e999"],
)
def test_what_is_nearly_one_is_refused_by_name(text: str) -> None:
    with pytest.raises(Fault) as caught:
        range_of(text, "a.b")
    assert (caught.value.id, caught.value.where) == ("CLI03", "a.b") and f"{text} is no range" in str(caught.value)
