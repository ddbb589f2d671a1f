"""Choices in captions."""

from collections import Counter

import pytest

from ldm.diffusion.draws import Draws
from lun.data.metadata.wildcards import with_choices


def test_each_choice_is_drawn_about_equally_often_and_apart_from_the_others():
    met = Counter(with_choices("{a|b|c} {x|y}", Draws(0, slot)) for slot in range(600))
    assert set(met) == {f"{one} {other}" for one in "abc" for other in "xy"}
    assert min(met.values()) > 60


def test_the_slot_alone_decides():
    assert with_choices("{a|b|c}", Draws(3, 7)) == with_choices("{a|b|c}", Draws(3, 7))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("{a|b} cat", "a cat"), ("{|b}cat", "cat"), ("{{a|b}}", "{a|b}"), ("{a}", "{a}"), ("a | b", "a | b"), ("", "")],
)
def test_without_draws_the_first_is_taken_and_other_braces_stay(text, expected):
    assert with_choices(text, None) == expected
