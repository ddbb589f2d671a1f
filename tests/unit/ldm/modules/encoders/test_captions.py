"""One caption for all text encoders of a model, or one for each."""

from typing import Any

import pytest

from ldm.modules.encoders.captions import captions_of, for_each, most_captions, of_encoder


@pytest.mark.parametrize(
    ("further", "told"),
    [
        ([None, None], "a"),
        (["a", "a"], "a"),
        (["b", None], ("a", "b")),
        (["b", "a"], ("a", "b")),
        ([None, "c"], ("a", "a", "c")),
        (["", None], ("a", "")),
    ],
)
def test_the_same_captions_are_the_same_value_however_they_are_given(further: list[Any], told: Any) -> None:
    assert for_each("a", further) == told


def test_an_encoder_is_told_its_own_caption_or_else_the_first() -> None:
    batch = {"text": ["a", "b"], "text_2": ["x", "b"], "other": 1}
    captions = captions_of(batch, "text")
    assert captions == [("a", "x"), "b"]
    assert [of_encoder(captions, place) for place in range(3)] == [["a", "b"], ["x", "b"], ["a", "b"]]
    assert (most_captions(captions), most_captions(["b"]), most_captions([])) == (2, 1, 1)
