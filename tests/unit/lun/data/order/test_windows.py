"""The window law: each example once a lap, few shards at a time, any place alone, with and without buckets."""

from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lun.data.order.bucket_table import Bucket, BucketTable
from lun.data.order.bucketed import BucketOrder
from lun.data.order.stream import SetPart, Stream
from lun.data.order.windows import InShards, Windows

law = settings(deadline=None, max_examples=40)
shards = st.lists(st.integers(1, 9), min_size=1, max_size=12)
across = st.integers(1, 5)


def windows(lengths: list[int], across: int, seed: int = 0) -> Windows:
    return Windows(InShards(np.array(lengths), across), seed)


def shard_of(lengths: list[int], index: int) -> int:
    return int(np.searchsorted(np.cumsum(lengths), index, side="right"))


@law
@given(lengths=shards, across=across, lap=st.integers(0, 10**6))
def test_each_lap_reads_every_example_once(lengths, across, lap):
    order = windows(lengths, across)
    assert sorted(order(lap, place) for place in range(order.n)) == list(range(order.n))


@law
@given(lengths=shards, across=across, lap=st.integers(0, 99), data=st.data())
def test_any_place_alone_is_that_of_the_sequence(lengths, across, lap, data):
    order = windows(lengths, across)
    place = data.draw(st.integers(0, order.n - 1))
    assert windows(lengths, across)(lap, place) == [order(lap, one) for one in range(order.n)][place]


@law
@given(lengths=shards, across=across)
def test_a_window_reads_so_many_shards_and_window_follows_window(lengths, across):
    order = windows(lengths, across)
    met = [(order.window_of(0, place), shard_of(lengths, order(0, place))) for place in range(order.n)]
    assert [window for window, _ in met] == sorted(window for window, _ in met)
    of_window = {window: {shard for one, shard in met if one == window} for window, _ in met}
    assert len(of_window) == order.lie.windows
    assert all(len(found) <= across for found in of_window.values())
    assert sum(len(found) for found in of_window.values()) == len(lengths)  # no shard is read in two of them


def test_laps_come_in_different_orders_and_seeds_too():
    orders = {tuple(windows([5] * 8, 2, seed)(lap, place) for place in range(40)) for seed in (0, 1) for lap in (0, 1)}
    assert len(orders) == 4


def bucketed(counts: list[list[int]], across: int, size: int) -> BucketOrder:
    """`counts` (shards, buckets): how many examples each shard has of each bucket."""
    lengths = np.array([sum(row) for row in counts])
    which = np.concatenate([np.repeat(np.arange(len(row)), row) for row in counts])
    buckets = [
        Bucket((64 * (number + 1), 64), members, 0.0)
        for number in range(len(counts[0]))
        if len(members := np.flatnonzero(which == number))
    ]
    return BucketOrder(BucketTable(buckets).in_shards(InShards(lengths, across)), 0, size)


tables = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.lists(st.integers(0, 7), min_size=width, max_size=width).filter(any), min_size=1, max_size=9
    )
)


@law
@given(counts=tables, across=across, size=st.integers(1, 6))
def test_in_buckets_each_example_is_read_as_often_as_without_windows(counts, across, size):
    order = bucketed(counts, across, size)
    places = range(order.start_of(size))  # after so many epochs no batch is begun
    assert Counter(order.key(place).example for place in places) == dict.fromkeys(range(sum(map(sum, counts))), size)
    assert len({order.key(place).slot for place in places}) == len(places)


@law
@given(counts=tables, across=across, size=st.integers(1, 6), epochs=st.integers(1, 3))
def test_batches_of_an_epoch_come_window_by_window(counts, across, size, epochs):
    order = bucketed(counts, across, size)
    for epoch in range(epochs):
        last = []
        for place in range(order.start_of(epoch), order.start_of(epoch + 1), size):
            key = order.key(place + size - 1)
            stream = order.of_size[key.size]
            number = key.slot & ((1 << 35) - 1)
            last.append(stream.in_step.window_of(*divmod(number, stream.in_step.n)))
        assert last == sorted(last)


@law
@given(counts=tables, across=across, size=st.integers(1, 6), data=st.data())
def test_in_buckets_any_place_alone_is_that_of_the_sequence(counts, across, size, data):
    order = bucketed(counts, across, size)
    place = data.draw(st.integers(0, order.start_of(2)))
    assert [order.key(one) for one in range(place + 1)][place] == bucketed(counts, across, size).key(place)


def test_few_shards_are_open_at_a_time_however_many_buckets_there_are():
    rng = np.random.default_rng(0)
    counts = rng.multinomial(200, [0.5, 0.3, 0.15, 0.04, 0.01], size=60).tolist()
    order, across, size = bucketed(counts, 8, 32), 8, 32
    ends = np.cumsum([sum(row) for row in counts])
    batches = [
        {int(np.searchsorted(ends, order.key(place).example, side="right")) for place in range(first, first + size)}
        for first in range(0, order.start_of(1), size)
    ]
    first_met = {shard: next(n for n, met in enumerate(batches) if shard in met) for shard in range(60)}
    last_met = {shard: max(n for n, met in enumerate(batches) if shard in met) for shard in range(60)}
    often = [n for n, _ in enumerate(batches) for shard in range(60) if first_met[shard] <= n <= last_met[shard]]
    assert np.mean(list(Counter(often).values())) <= 3 * across


def test_a_set_in_shards_beside_another_keeps_share_and_windows():
    lie = InShards(np.full(40, 25), 4)
    parts = [
        SetPart("packed", range(1000), Fraction(1000), lie),
        SetPart("loose", range(1000, 1100), Fraction(500)),
    ]
    stream = Stream(parts, seed=1)
    read = [stream(number) for number in range(1500)]
    packed = [index for index in read if index < 1000]
    assert len(set(packed[:1000])) == len(packed[:1000])
    assert abs(len(packed) - 1000) < stream.mixture.block
    for first, after in pairwise(range(0, len(packed) - 100, 100)):
        assert len({index // 25 for index in packed[first:after]}) <= 4
