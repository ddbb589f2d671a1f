from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Optional, TypedDict, Union

import pytest

from ldm.ema.profiles import Profile
from lun.config.schema import described, fits, mismatch

RECIPE = " (an object is written as a recipe: target and params)"


class Crop(TypedDict, total=False):
    size: int


class Part:
    pass


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (1, int),
        (1, float),
        (1.5, float),
        (True, bool),
        ("x", str),
        (None, None),
        (None, Optional[int]),  # noqa: UP045
        (3, int | str),
        ("a", Literal["a", "b"]),
        (32, Union[Literal[32], Literal["16-mixed"]]),  # noqa: UP007
        ([1, 2], list[int]),
        ([0.9, 1], tuple[float, float]),
        ([1, 2, 3], tuple[int, ...]),
        ([5, 10, 20], tuple[int]),
        (["a", 1], Sequence[str]),
        ({"a": "b", "1": 2}, Mapping[str, str]),
        ({"size": 3}, Crop),
        ("x", Path),
        (1, Any),
        ({"target": "a.B"}, Part),
        ("x", Part),
        ({"target": "a.B"}, Profile),
        ({"target": "a.B"}, Callable[[int], int]),
        ([{"target": "a.B"}], list[Part]),
        ([], list),
        ({"target": "a.B"}, Mapping[str, Any]),
        ([[1], [2]], list[list[int]]),
    ],
)
def test_fitting_values_pass(value, annotation):
    assert mismatch(value, annotation) is None


@pytest.mark.parametrize(
    ("value", "annotation", "message"),
    [
        ("64", int, "expected int, got '64'"),
        (1.0, int, "expected int, got 1.0"),
        (True, int, "expected int, got true"),
        ("1e-4", float, "expected float, got '1e-4'"),
        (True, float, "expected float, got true"),
        (1, bool, "expected bool, got 1"),
        (5, str, "expected str, got 5"),
        (None, int, "expected int, got null"),
        ("c", Literal["a", "b"], "expected 'a' or 'b', got 'c'"),
        (1, Literal[True, "x"], "expected true or 'x', got 1"),
        ("x", int | None, "expected int or null, got 'x'"),
        (["x"], list[int], "expected a list of int, got ['x']"),
        ("abc", Sequence[str], "expected a list of str, got 'abc'"),
        ([1, 2, 3], tuple[int, int], "expected a list of 2: int, int, got [1, 2, 3]"),
        ({"a": 1.5}, dict[str, int], "expected a map, got a map"),
        ([1], Mapping[str, int], "expected a map, got [1]"),
        ("f", Callable[[int], int], "expected a recipe (target and params), got 'f'"),
        (3, Part, "expected Part, got 3"),
        ("1e400", Profile | None, f"expected Profile or null, got '1e400'{RECIPE}"),
        ([1], Profile, f"expected Profile, got [1]{RECIPE}"),
        ({"target": "a.B"}, float, "expected float, got a map"),
        (False, str, "expected str, got false (YAML reads a bare yes, no, on or off so: put it in quotes)"),
    ],
)
def test_misfits_are_told_with_what_was_expected(value, annotation, message):
    assert mismatch(value, annotation) == message


def test_a_bare_no_among_tags_does_not_pass_for_text():
    assert not fits(["tag", False], list[str])


def test_equal_alternatives_are_named_once():
    assert described(Union[Literal["a"], Literal["a", "b"], None]) == "'a' or 'b' or null"  # noqa: UP007
