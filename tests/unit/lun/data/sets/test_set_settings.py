"""What a config may say of several sets, and one message for each thing that makes no sense."""

import math
from fractions import Fraction

import pytest

from ldm.errors import Fault
from lun.data.order.buckets import Buckets
from lun.data.sets.set_settings import MixSettings, SetRecipe
from lun.data.sets.set_sizes import require_sizes

LOCAL = {"target": "lun.data.local.Local", "params": {"data_root": "x"}}


def read(epoch: str | None = None, **sets: dict | None) -> MixSettings:
    said = {name: one if one is None else {**LOCAL, **one} for name, one in sets.items()}
    return MixSettings.read({"sets": said} | ({"epoch": epoch} if epoch else {}))


@pytest.mark.parametrize(
    ("sets", "words"),
    [
        ({"a": {"repeats": 2, "weight": 1}}, "repeats and a weight"),
        ({"a": {"weight": 0}}, "a.weight cannot be 0"),
        ({"a": {"weight": -1}}, "a.weight cannot be -1"),
        ({"a": {"repeats": 0}}, "a.repeats cannot be 0"),
        ({"a": {"loss_weight": -0.5}}, "a.loss_weight cannot be -0.5"),
        ({"a": {"timesteps": [500, 500]}}, "a.timesteps cannot be"),
        ({"a": {"timesteps": [1, 2, 3]}}, "a.timesteps cannot be"),
        ({"a": {"until_step": 0}}, "a.until_step cannot be 0"),
        ({"a": {"kind": "reg"}}, "a.kind cannot be 'reg'"),
        ({"a": {"kind": "class", "repeats": 2}}, "of kind class has repeats"),
        ({"a": {"resolutions": []}}, "a.resolutions cannot be"),
        ({"a": {"ucg_rate": 1.5}}, "a.ucg_rate cannot be 1.5"),
        ({"a": {"ucg_rate": -0.1}}, "a.ucg_rate cannot be -0.1"),
        ({"a": {"wieght": 1}}, "unknown setting data.params.train.sets.a.wieght"),
        ({"a": {"weight": 1}, "b": {}}, "a: a weight; b: none"),
        ({"a": None}, "names no set"),
        ({"a.b": {}}, "cannot be the name of a set"),
        ({"a": {"from_step": 5}}, "no set is read at step 0"),
        ({"a": {"until_step": 5}, "b": {"from_step": 6}}, "no set is read at step 5"),
    ],
)
def test_what_makes_no_sense_is_one_message(sets, words):
    with pytest.raises(Fault) as raised:
        read(**sets)
    assert raised.value.id in ("CFG03", "CFG08")
    assert words in raised.value.what
    assert raised.value.fix or raised.value.why


@pytest.mark.parametrize("epoch", ["c", "a"])
def test_an_epoch_is_that_of_all_or_of_a_set_with_a_weight(epoch):
    with pytest.raises(Fault, match=f"epoch cannot be '{epoch}'"):
        read(epoch, a={"repeats": 2}, b={})


def test_a_recipe_beside_sets_is_refused():
    with pytest.raises(Fault, match="sets and a recipe of its own"):
        MixSettings.read({"sets": {"a": LOCAL}, **LOCAL})


def test_repeats_are_read_as_they_are_written():
    repeats = read(a={"repeats": 0.1}, b={}).repeats_at(0, {"a": 10, "b": 3})
    assert repeats == {"a": Fraction(1, 10), "b": 1}


def test_weights_are_shares_whatever_the_sets_hold():
    mixed = read(a={"weight": 3}, b={"weight": 1})
    examples = {"a": 10, "b": 1000}
    repeats = mixed.repeats_at(0, examples)
    rates = {name: examples[name] * times for name, times in repeats.items()}
    assert rates["a"] == 3 * rates["b"]
    assert sum(rates.values()) == 1010


def test_an_epoch_of_one_set_reads_it_once():
    repeats = read("a", a={"weight": 3}, b={"weight": 1}).repeats_at(0, {"a": 10, "b": 1000})
    assert repeats["a"] == 1


def test_a_set_that_is_null_is_left_out():
    assert [one.name for one in read(a={}, b=None).sets] == ["a"]


def test_a_set_is_read_from_its_step_until_its_step():
    mixed = read(a={"until_step": 5}, b={"from_step": 3})
    assert mixed.changes == [3, 5]
    assert [list(mixed.repeats_at(step, {"a": 1, "b": 1})) for step in (0, 3, 4, 5)] == [
        ["a"],
        ["a", "b"],
        ["a", "b"],
        ["b"],
    ]


@pytest.mark.parametrize(
    ("resolutions", "buckets", "words"),
    [
        ([512], None, "no effect without data.params.buckets"),
        ([512, 640], Buckets((512, 768)), r"no bucket serves .*\[640\]"),
        ([512], Buckets((512, 768)), r"no bucket serves .*params.size: 768"),
    ],
)
def test_resolutions_are_those_of_buckets(resolutions, buckets, words):
    with pytest.raises(Fault, match=words):
        params = {"params": {"data_root": "x", "size": 768}}
        require_sizes(read(a={"resolutions": resolutions, **params}).sets, buckets)


def test_sets_of_different_sizes_need_buckets():
    sets = read(a={}, b={"params": {"data_root": "y", "size": 768}}).sets
    require_sizes(sets, Buckets((512, 768)))
    with pytest.raises(Fault, match="different sizes"):
        require_sizes(sets, None)


NUMBERS = {
    "float": [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e-300, 1e300, True],
    "int": [-1, 0, 10**30],
    "list[int]": [[], [-1], [0], [5, 5], [9, 3], [-1, 3], [1, 2, 3], [0, 10**30]],
}
SOUND = {
    "loss_weight": [0.0, 1e-300, 1e300],
    "repeats": [1e-300, 1e300],
    "weight": [1e-300, 1e300],
    "ucg_rate": [0.0, 1e-300],
    "timesteps": [[0, 10**30]],
    "resolutions": [[9, 3], [1, 2, 3]],
    "from_step": [0],
    "until_step": [10**30],
}
"""Of these numbers those that a key takes; what the law of the order cannot count it refuses itself."""
CASES = [
    (key, value)
    for key, kind in SetRecipe.__annotations__.items()
    for value in NUMBERS.get(str(getattr(kind, "__name__", kind)) if kind in (int, float) else str(kind), [])
]


@pytest.mark.parametrize(("key", "value"), CASES, ids=str)
def test_every_number_of_every_key_is_taken_or_refused_by_name(key, value):
    if not isinstance(value, bool) and value in SOUND[key]:
        read(a={key: value}, b={"weight": 1} if key == "weight" else {}).repeats_at(0, {"a": 7, "b": 7})
        return
    with pytest.raises(Fault) as raised:
        read(a={key: value})
    assert raised.value.id == "CFG08" and raised.value.why
    assert f"a.{key} cannot be" in raised.value.what or "no set is read" in raised.value.what


def test_every_key_with_numbers_was_tried():
    assert {key for key, _ in CASES} == SOUND.keys()
