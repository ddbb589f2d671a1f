"""Each caption rule, alone: what becomes of the tags, and that chance is a matter of the slot."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm.diffusion.draws import Draws
from lun.data.metadata.compose import Composer, one_of, split_tags

TAGS = ["solo", "artist:kim", "oc:ann", "cat"]


def caption(tags=TAGS, text="", draws=None, **params):
    return Composer(params, sorts=True)(tags, text, draws)


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, "artist:kim, cat, oc:ann, solo"),
        ({"tag_order": "as_written"}, "solo, artist:kim, oc:ann, cat"),
        ({"caption_sorter": lambda tag: tag[::-1]}, "artist:kim, oc:ann, solo, cat"),
        ({"non_caption_tags": ["cat", "x"]}, "artist:kim, oc:ann, solo"),
        ({"non_caption_tag_prefixes": ["oc:", "art"]}, "cat, solo"),
        ({"tag_separator": " | "}, "artist:kim | cat | oc:ann | solo"),
        ({"final_tag_separator": True}, "artist:kim, cat, oc:ann, solo, "),
        ({"prefix": "pony, ", "suffix": "."}, "pony, artist:kim, cat, oc:ann, solo."),
        ({"skip_caption": True, "prefix": "x"}, ""),
        ({"replacements": {"artist:": "by=", ":": "="}}, "by=kim, cat, oc=ann, solo"),
        ({"replacements": {":": "=", "artist:": "by="}}, "artist=kim, cat, oc=ann, solo"),
        ({"replacements": {"o": "0"}}, "artist:kim, cat, 0c:ann, s0l0"),
        ({"replacements": {"||solo||": "||alone||", "||artist:kim||": "||kim||"}}, "kim, cat, oc:ann, alone"),
        ({"replacements": {"||o||": "||x||"}}, "artist:kim, cat, oc:ann, solo"),
        ({"replacements": {"||cat||": "||"}}, "artist:kim, oc:ann, solo"),
        ({"replacements": {"cat": ""}}, "artist:kim, oc:ann, solo"),
        ({"replacements": {" ": "_"}, "tag_separator": " "}, "artist:kim cat oc:ann solo"),
    ],
)
def test_a_rule_by_itself(params, expected):
    assert caption(**params) == expected


def test_no_tags_make_an_empty_caption():
    assert caption([], final_tag_separator=True, replacements={"a": "b"}) == ""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, "a, b"),
        ("tags", "a, b"),
        ("text", "a cat"),
        ("tags+text", "a, b, a cat"),
        ("text+tags", "a cat, a, b"),
    ],
)
def test_text_and_tags_can_be_mixed(words, expected):
    assert caption(["b", "a"], "a cat", words=words) == expected


def test_either_draws_the_text_as_often_as_asked():
    drawn = Counter(caption(["a"], "b", Draws(0, slot), words="either", text_p=0.25) for slot in range(400))
    assert set(drawn) == {"a", "b"}
    assert 70 < drawn["b"] < 130


@pytest.mark.parametrize(("tags", "text", "expected"), [([], "b", "b"), (["a"], "", "a")])
def test_what_a_picture_lacks_is_replaced_by_what_it_has(tags, text, expected):
    assert caption(tags, text, words="text" if tags else "tags") == expected
    assert caption(tags, text, words="tags+text") == expected


def test_shuffling_happens_as_often_as_asked_and_reaches_every_order():
    captions = Counter(caption(["a", "b", "c"], draws=Draws(0, slot), shuffle_tag_p=0.5) for slot in range(600))
    assert len(captions) == 6
    assert 300 < captions["a, b, c"] < 400  # half unshuffled, and a sixth of the rest


def test_the_first_tags_stay_when_the_others_move():
    captions = {
        caption(["c", "a", "b", "d"], draws=Draws(0, slot), shuffle_tag_p=1.0, keep_tags=1, tag_order="as_written")
        for slot in range(100)
    }
    assert len(captions) == 6
    assert all(text.startswith("c, ") for text in captions)


def test_a_separator_fences_off_what_stays_at_both_ends():
    tags = ["z", "y", "|||", "b", "a", "|||", "x"]
    captions = {caption(tags, draws=Draws(0, slot), shuffle_tag_p=1.0, keep_separator="|||") for slot in range(50)}
    assert captions == {"z, y, a, b, x", "z, y, b, a, x"}


def shares(count=2000, **params):
    """tag -> how often it is in the caption, of 1"""
    found = Counter(tag for slot in range(count) for tag in caption(draws=Draws(0, slot), **params).split(", "))
    return {tag: found[tag] / count for tag in TAGS}


def test_each_tag_is_dropped_by_its_own_chance():
    found = shares(tag_dropout_p=0.2, tag_dropout={"solo": 0.5}, prefix_dropout={"oc": 0.0, "artist:": 1.0})
    assert found == {
        "solo": pytest.approx(0.5, abs=0.05),
        "cat": pytest.approx(0.8, abs=0.05),
        "oc:ann": 1.0,
        "artist:kim": 0.0,
    }


def test_tags_that_stay_in_place_are_never_dropped():
    assert shares(count=20, tag_dropout_p=1.0, keep_tags=2) == {"artist:kim": 1, "cat": 1, "oc:ann": 0, "solo": 0}


def test_a_longer_prefix_goes_before_a_shorter_one():
    assert shares(count=20, prefix_dropout={"o": 1.0, "oc:": 0.0})["oc:ann"] == 1


def test_one_rule_more_leaves_the_draws_of_the_others_alone():
    tags = list("abcdefgh")
    for slot in range(50):
        plain = caption(tags, draws=Draws(0, slot), shuffle_tag_p=0.5)
        assert caption(tags, "x", draws=Draws(0, slot), shuffle_tag_p=0.5, words="tags+text") == plain + ", x"


@given(st.lists(st.text("abc:| ", min_size=1), max_size=6, unique=True), st.integers(0, 2**40))
def test_the_slot_alone_decides(tags, slot):
    params = {"shuffle_tag_p": 0.7, "tag_dropout_p": 0.4, "keep_tags": 1}
    assert caption(tags, draws=Draws(3, slot), **params) == caption(list(tags), draws=Draws(3, slot), **params)


@given(st.lists(st.sampled_from(["a", "b c", "d:e"]), max_size=8), st.integers(0, 999))
def test_shuffling_loses_and_makes_no_tag(tags, slot):
    found = caption(tags, draws=Draws(0, slot), shuffle_tag_p=1.0)
    assert Counter(found.split(", ") if found else []) == Counter(tags)


def test_one_of_several_captions_is_drawn():
    drawn = Counter(one_of(["a", "b", "c"], Draws(0, slot)) for slot in range(300))
    assert min(drawn.values()) > 70
    assert one_of(["a", "b"], None) == "a"


@pytest.mark.parametrize(
    ("text", "separator", "keep", "tags"),
    [
        ("a, b c,,d ", ",", None, ["a", "b c", "d"]),
        ("a b", " ", None, ["a", "b"]),
        ("a, b ||| c, d", ",", "|||", ["a", "b", "|||", "c", "d"]),
        ("", ",", None, []),
    ],
)
def test_text_splits_into_tags(text, separator, keep, tags):
    assert split_tags(text, separator, keep) == tags


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, "k, a"), (1, "k, a"), (2, "k, a, b"), (5, "k, a, b, c"), (6, "k, a, b, c, d"), (99, "k, a, b, c, d")],
)
def test_tags_grow_from_the_first_to_all_over_the_steps_of_the_warm_up(step, expected):
    params = {"tag_order": "as_written", "keep_tags": 1, "tag_warmup_steps": 6}
    assert caption(["k", "a", "b", "c", "d"], draws=Draws(0, 0, step), **params) == expected


@pytest.mark.parametrize("draws", [None, Draws(0, 0)])
def test_outside_of_training_captions_are_warmed_up(draws):
    assert caption(draws=draws, tag_warmup_steps=6, tag_warmup_min=0) == caption()


@given(
    n=st.integers(0, 9),
    least=st.integers(0, 5),
    steps=st.integers(1, 20),
    slot=st.integers(0, 99),
    step=st.integers(0, 30),
)
def test_a_warm_up_never_takes_a_tag_back_and_draws_nothing(n, least, steps, slot, step):
    made = Composer({"tag_order": "as_written", "tag_warmup_steps": steps, "tag_warmup_min": least}, sorts=True)
    tags = [str(number) for number in range(n)]
    now, then = (made(tags, "", Draws(0, slot, at)).split(", ") for at in (step, step + 1))
    assert then[: len(now)] == now or now == [""]
    assert len(made.warmed_up(tags, step)) >= min(n, least)
    assert made(tags, "", Draws(0, slot, steps)) == ", ".join(tags)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a photo of [trigger] on grass", "a photo of sks cat on grass"),
        ("a photo", "sks cat, a photo"),
        ("a photo of sks cat", "a photo of sks cat"),
        ("sks cats", "sks cat, sks cats"),
        ("", "sks cat"),
    ],
)
def test_trigger_words_stand_where_the_text_has_them_else_first(text, expected):
    assert caption([], text, trigger="sks cat") == expected
    assert Composer({"trigger": "sks cat", "prefix": "x ", "suffix": "."}, sorts=True).framed(text) == f"x {expected}."


@given(slot=st.integers(0, 10**6), own=st.sampled_from(["", "[trigger]", "sks"]))
def test_trigger_words_stand_first_whatever_becomes_of_the_tags(slot, own):
    chances = {"shuffle_tag_p": 1.0, "tag_dropout_p": 0.5, "tag_warmup_steps": 9}
    made = caption([*TAGS, own] if own else TAGS, draws=Draws(0, slot, slot % 12), trigger="sks", **chances)
    first, *others = made.split(", ")
    assert first == "sks" and set(others) <= set(TAGS)
