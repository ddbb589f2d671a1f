"""The law of buckets: one size a step, nothing lost, nothing twice, whatever the ranks, batches and resumes."""

from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.position import Position
from lun.data.order.bucket_table import Bucket, BucketTable
from lun.data.order.bucketed import BucketOrder, bucket_slot
from lun.data.order.law import Key
from lun.data.order.position_sampler import UNCOUNTED, OnceByBucketSampler, PositionBatchSampler, Window

law = settings(deadline=None, max_examples=40)
small = st.integers(1, 4)
counts = st.lists(st.integers(1, 23), min_size=1, max_size=5)


def order(counts: list[int], global_batch: int, seed: int = 0) -> BucketOrder:
    ends = np.cumsum([0, *counts])
    buckets = [
        Bucket((64 * (which + 1), 64), np.arange(first, end), 0.0) for which, (first, end) in enumerate(pairwise(ends))
    ]
    return BucketOrder(BucketTable(buckets), seed, global_batch)


def window_of_all_ranks(law: BucketOrder, mb: int, accumulate: int, ranks: int, start: int) -> list[Key]:
    samplers = [
        PositionBatchSampler(law, Window(mb, accumulate, ranks, rank), Position(slot=start), 1) for rank in range(ranks)
    ]
    keys = (key for sampler in samplers for batch in islice(sampler, accumulate) for key in batch)
    return sorted(key._replace(step=None) for key in keys)


@law
@given(counts=counts, size=st.integers(1, 9), epochs=st.integers(1, 30))
def test_no_bucket_is_ever_a_whole_batch_ahead_or_behind(counts, size, epochs):
    law = order(counts, size)
    met = Counter(law.key(place).size for place in range(law.start_of(epochs)))
    for bucket in law.buckets:
        due = epochs * len(bucket.examples)
        assert due - size < met[bucket.size] <= due


@law
@given(counts=counts, size=st.integers(1, 9))
def test_after_as_many_epochs_as_the_global_batch_each_example_was_read_exactly_that_often(counts, size):
    law = order(counts, size)
    places = range(law.start_of(size))
    assert len(places) == size * sum(counts)
    assert Counter(law.key(place).example for place in places) == dict.fromkeys(range(sum(counts)), size)


@law
@given(counts=counts, size=st.integers(1, 9), batches=st.integers(1, 60))
def test_a_step_holds_one_size_and_no_slot_comes_twice(counts, size, batches):
    law = order(counts, size)
    keys = [law.key(place) for place in range(batches * size)]
    assert all(len({key.size for key in keys[first : first + size]}) == 1 for first in range(0, len(keys), size))
    assert len({key.slot for key in keys}) == len(keys)


@law
@given(counts=counts, size=st.integers(1, 9))
def test_within_a_bucket_every_lap_is_a_permutation(counts, size):
    law = order(counts, size)
    for bucket in law.buckets:
        n = len(bucket.examples)
        own = sorted(key for place in range(law.start_of(3 * size)) if (key := law.key(place)).size == bucket.size)
        assert [key.slot for key in own] == [bucket_slot(bucket.size, number) for number in range(len(own))]
        for lap in range(len(own) // n):
            assert sorted(key.example for key in own[lap * n : (lap + 1) * n]) == bucket.examples.tolist()


@law
@given(counts=counts, mb=small, accumulate=small, ranks=small, done=st.integers(0, 12))
def test_any_split_of_a_global_batch_over_ranks_and_micro_batches_reads_the_same(counts, mb, accumulate, ranks, done):
    size = mb * accumulate * ranks
    law = order(counts, size)
    there = window_of_all_ranks(order(counts, size), mb, accumulate, ranks, done * size)
    assert there == sorted(law.key(place) for place in range(done * size, (done + 1) * size))


@law
@given(counts=counts, size=st.integers(1, 9), place=st.integers(0, 10**12))
def test_any_place_can_be_asked_for_at_once(counts, size, place):
    law = order(counts, size)
    epoch = law.epoch(place)
    assert law.start_of(epoch) <= place < law.start_of(epoch + 1)
    assert law.key(place) == order(counts, size).key(place)


def test_places_asked_for_backwards_hold_the_same():
    law = order([7, 3, 12], 4)
    forwards = [law.key(place) for place in range(200)]
    assert [law.key(place) for place in reversed(range(200))] == forwards[::-1]


def test_a_position_within_a_batch_goes_on_with_that_batch():
    inside, begin = (window_of_all_ranks(order([7, 3, 12], 4), 2, 2, 1, start) for start in (10, 8))
    assert inside == begin
    assert len({key.size for key in inside}) == 1


def test_epochs_are_shuffled_differently_and_by_the_seed():
    law, other = order([40, 40], 4), order([40, 40], 4, seed=1)
    epochs = [[law.key(place).size for place in range(first, first + 80)] for first in (0, 80)]
    assert epochs[0] != epochs[1]
    assert epochs[0] != [other.key(place).size for place in range(80)]


def test_the_slot_tells_size_and_number():
    assert bucket_slot((0, 0), 5) == 5
    assert bucket_slot((16383, 16383), 2**35 - 1) == 2**63 - 1


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_a_replacement_is_of_the_same_bucket_and_follows_from_the_slot(attempt):
    law = order([5, 9], 4)
    key = law.key(0)
    members = next(bucket.examples for bucket in law.buckets if bucket.size == key.size)
    assert law.another(key, attempt) in members
    assert law.another(key, attempt) == order([5, 9], 4).another(key, attempt)


@law
@given(counts=counts, mb=small, ranks=small)
def test_validation_reads_every_example_once_one_size_a_batch(counts, mb, ranks):
    samplers = [OnceByBucketSampler(order(counts, 4), Window(mb, 1, ranks, rank)) for rank in range(ranks)]
    batches = [batch for sampler in samplers for batch in sampler]
    counted = Counter(key.example for batch in batches for key in batch if key.slot != UNCOUNTED)
    assert counted == dict.fromkeys(range(sum(counts)), 1)
    assert all(len({key.size for key in batch}) == 1 for batch in batches)
    assert len(set(map(len, samplers))) == 1
