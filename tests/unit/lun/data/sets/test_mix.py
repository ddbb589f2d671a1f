"""The order of several sets: shares, laps, ranks and resumes, and what goes on when a set changes."""

from collections import Counter
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.errors import Fault
from ldm.position import Position
from lun.data.keyed import Keyed
from lun.data.order.buckets import Buckets
from lun.data.order.law import Key
from lun.data.order.law_start import LawStart
from lun.data.order.position_sampler import PositionBatchSampler, Window
from lun.data.sets.joined import JoinedSets
from lun.data.sets.mix import Mix
from lun.data.sets.set_settings import MixSettings

law = settings(deadline=None, max_examples=30)
GB = 6
SHAPES = [(64, 64), (128, 64), (64, 128)]
BUCKETS = Buckets((64,), step=16)


class Shaped:
    """`n` pictures whose shapes take turns."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def example(self, index, draws, size=None):
        return {"image": torch.zeros(1, 1, 3), "caption": str(index)}

    def sizes(self):
        return np.array([SHAPES[index % len(SHAPES)] for index in range(self.n)])

    def path(self, index):
        return f"{self.n}/{index}"


def mix(sizes: dict[str, int], buckets: Buckets | None = None, epoch: str = "sum", **said: dict) -> Mix:
    recipes = {name: {"target": "a.B", **said.get(name, {})} for name in sizes}
    read = MixSettings.read({"sets": recipes, "epoch": epoch})
    return Mix(read, JoinedSets(read.sets, [Shaped(n) for n in sizes.values()]), buckets)


THREE = {"a": 7, "b": 50, "c": 16}
WEIGHTS = {"a": {"weight": 50}, "b": {"weight": 30}, "c": {"weight": 20}}
REPEATS = {"a": {"repeats": 3}, "b": {"repeats": 0.5}, "c": {}}
cases = pytest.mark.parametrize("said", [WEIGHTS, REPEATS], ids=["weights", "repeats"])
both = pytest.mark.parametrize("buckets", [None, BUCKETS], ids=["one size", "buckets"])


@cases
@both
def test_every_set_keeps_its_share_within_one_batch_a_bucket(said, buckets):
    mixed = mix(THREE, buckets, **said)
    order, places = mixed.law(0, GB), 1200
    met = Counter(mixed.joined.set_of(order.key(place).example) for place in range(places))
    repeats = mixed.settings.repeats_at(0, mixed.examples)
    whole = sum(mixed.examples[name] * times for name, times in repeats.items())
    for name, times in repeats.items():
        share = float(mixed.examples[name] * times / whole)
        assert abs(met[name] - share * places) <= (len(mixed.table().buckets) if buckets else 2) * GB


@both
def test_whole_repeats_are_exact_after_each_epoch(buckets):
    mixed = mix({"a": 6, "b": 12}, buckets, a={"repeats": 3})
    order = mixed.law(0, GB)
    met = Counter(order.key(place).example for place in range(order.start_of(6)))
    assert met == {**dict.fromkeys(range(6), 18), **dict.fromkeys(range(6, 18), 6)}
    assert mixed.n == 30


def test_each_lap_of_a_set_reads_all_of_it_before_any_comes_again():
    mixed = mix(THREE, **WEIGHTS)
    order = mixed.law(0, GB)
    met = [order.key(place).example for place in range(400)]
    for name, n in THREE.items():
        own = [index for index in met if mixed.joined.set_of(index) == name]
        for first in range(0, len(own) - n, n):
            assert len(set(own[first : first + n])) == n


def test_one_named_set_is_read_as_often_as_one_recipe():
    order = mix({"a": 9}).law(0, GB)
    assert sorted(order.key(place).example for place in range(9, 18)) == list(range(9))


@law
@given(
    mb=st.integers(1, 3), accumulate=st.integers(1, 2), ranks=st.integers(1, 3), done=st.integers(0, 9), data=st.data()
)
def test_any_split_over_ranks_reads_the_same_and_a_resume_goes_on(mb, accumulate, ranks, done, data):
    buckets = data.draw(st.sampled_from([None, BUCKETS]))
    said = data.draw(st.sampled_from([WEIGHTS, REPEATS, {**REPEATS, "b": {"until_step": 4}}]))
    size = mb * accumulate * ranks
    straight = mix(THREE, buckets, **said).law(5, size)
    places = range(done * size, done * size + size)
    cold = mix(THREE, buckets, **said).law(5, size)
    keys = [
        key._replace(step=None)
        for rank in range(ranks)
        for batch in islice(
            PositionBatchSampler(cold, Window(mb, accumulate, ranks, rank), Position(slot=done * size), 1), accumulate
        )
        for key in batch
    ]
    for place in range(places.start):
        straight.key(place)
    assert sorted(keys, key=str) == sorted((straight.key(place) for place in places), key=str)


@cases
@both
def test_no_draw_comes_twice_over_changes_of_sets(said, buckets):
    mixed = mix(THREE, buckets, **{**said, "b": {**said["b"], "until_step": 10}, "c": {**said["c"], "from_step": 20}})
    order = mixed.law(0, GB)
    keys = [order.key(place) for place in range(40 * GB)]
    assert len({key.slot for key in keys}) == len(keys)
    met = [
        {mixed.joined.set_of(key.example) for key in keys[first * GB : end * GB]} for first, end in ((10, 20), (20, 40))
    ]
    assert met == [{"a"}, {"a", "c"}]
    epochs = [order.epoch(place) for place in range(40 * GB)]
    assert epochs == sorted(epochs)


def stored(mixed: Mix, steps: int, start: LawStart | None = None) -> dict:
    start = start or LawStart()
    return mixed.state_dict(mixed.law(0, GB, start).reached(steps * GB, steps), start)


@cases
@both
@pytest.mark.parametrize("change", ["grown", "weight", "gone", "new"])
def test_sets_that_did_not_change_go_on_within_their_lap(said, buckets, change):
    steps, before = 17, mix(THREE, buckets, **said)
    law_before = before.law(0, GB)
    keys = [law_before.key(place) for place in range(steps * GB)]
    sizes = dict(THREE)
    now_said = dict(said)
    if change == "grown":
        sizes["c"] = 23
    elif change == "weight":
        now_said["c"] = dict.fromkeys(said["c"], 5) or {"repeats": 5}
    elif change == "gone":
        del sizes["c"]
    else:
        sizes["d"], now_said["d"] = 9, said["c"]
    now = mix(sizes, buckets, **now_said)
    start = now.start_after(stored(before, steps))
    law_now = now.law(0, GB, start)
    more = [law_now.key(place) for place in range(steps * GB, 400 * GB)]
    for name in ("a", "b"):
        for size in before.members[name]:
            n = len(before.members[name][size])
            read = [
                mixed.joined.located(key.example)[1]
                for mixed, met in ((before, keys), (now, more))
                for key in met
                if key.size == size and mixed.joined.set_of(key.example) == name
            ]
            assert len(read) > 2 * n
            assert all(len(set(read[first : first + n])) == n for first in range(0, len(read) - n, n))
    assert len({key.slot for key in keys + more}) == len(keys + more)


@both
def test_a_start_that_was_written_down_gives_the_same_law(buckets):
    before = mix(THREE, buckets, **WEIGHTS)
    now = mix({**THREE, "c": 23}, buckets, **WEIGHTS)
    start = now.start_after(stored(before, 17))
    again = LawStart.of(stored(now, 17, start)["start"])
    laws = [now.law(0, GB, one) for one in (start, again)]
    assert all(laws[0].key(place) == laws[1].key(place) for place in range(17 * GB, 40 * GB))


@both
def test_what_is_stored_are_numbers_names_and_hashes(buckets):
    def leaves(value):
        return [leaf for one in value.values() for leaf in leaves(one)] if isinstance(value, dict) else [value]

    state = stored(mix(THREE, buckets, **WEIGHTS), 17)
    assert {type(leaf) for leaf in leaves(state)} <= {int, str}
    state_later = stored(mix(THREE, buckets, **WEIGHTS), 1700)
    assert len(leaves(state)) == len(leaves(state_later))


@cases
@both
def test_a_bad_picture_gives_way_to_one_of_its_own_set(said, buckets):
    mixed = mix(THREE, buckets, **said)
    order = mixed.law(0, GB)
    for place in range(60):
        key = order.key(place)
        for attempt in (1, 2):
            other = order.another(key, attempt)
            assert mixed.joined.set_of(other) == mixed.joined.set_of(key.example)


def test_laps_are_those_of_each_set():
    mixed = mix(THREE, **WEIGHTS)
    laps = mixed.laps(mixed.law(0, GB).reached(100 * GB, 100))
    assert laps == pytest.approx({"a": 300 / 7, "b": 180 / 50, "c": 120 / 16}, rel=0.05)


def test_a_set_is_in_the_buckets_of_its_own_resolutions_alone():
    mixed = mix({"a": 6, "b": 6}, Buckets((64, 128), step=16, upscale=True), b={"resolutions": [128]})
    assert {size[0] * size[1] > 64**2 for size in mixed.members["b"]} == {True}
    assert {size[0] * size[1] > 64**2 for size in mixed.members["a"]} == {True, False}


def test_examples_carry_what_their_sets_say_and_the_others_what_means_nothing():
    said = {"a": {"timesteps": [0, 500], "loss_weight": 0.5}, "b": {"ucg_rate": 0.3}}
    joined = mix({"a": 2, "b": 2}, **said).joined
    read = Keyed(joined, 0)
    found = [{name: read[Key(0, index)].get(name) for name in ("timesteps", "ucg_rate", "weight")} for index in (1, 2)]
    assert found[0] == {"timesteps": (0, 500), "ucg_rate": -1.0, "weight": 0.5}
    assert found[1] == {"timesteps": (0, -1), "ucg_rate": 0.3, "weight": 1.0}
    assert set(read[Key(0, 0)]) == set(read[Key(0, 3)])
    assert "timesteps" not in Keyed(mix({"a": 2}).joined, 0)[Key(0, 0)]


@both
@pytest.mark.parametrize("said", [{"a": {"repeats": 1e10}}, {"a": {"weight": 1e-12}, "b": {"weight": 1}}])
def test_what_no_memory_holds_is_refused_before_the_first_step(said, buckets):
    mixed = mix({"a": 7, "b": 50}, buckets, **said)
    with pytest.raises(Fault, match="too unequally often"):
        mixed.law(0, GB)


def test_the_plan_tells_each_set_by_name():
    lines = mix(
        THREE, **{**WEIGHTS, "c": {"weight": 20, "kind": "class", "loss_weight": 0.5, "timesteps": [0, 500]}}
    ).lines()
    assert lines[0] == "a: 7 images, 5.214 laps an epoch, 50.0% of what is read"
    assert lines[2].endswith("20.0% of what is read, regularisation, loss x 0.5, timesteps 0 to 500")


def test_the_weight_that_a_dataset_gives_an_example_counts_in_that_of_its_set():
    class Weighing(Shaped):
        def example(self, index, draws, size=None):
            return {**super().example(index, draws), "weight": 3.0}

    read = MixSettings.read({"sets": {"a": {"target": "a.B", "loss_weight": 0.5}, "b": {"target": "a.B"}}})
    keyed = Keyed(JoinedSets(read.sets, [Weighing(2), Shaped(2)]), 0)
    assert [keyed[Key(0, index, None)]["weight"] for index in (0, 2)] == [1.5, 1.0]
