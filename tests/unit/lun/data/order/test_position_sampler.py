"""The position law: nothing lost, nothing twice, the same on any split of the global batch and after any resume."""

from collections import Counter
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.position import Position
from lun.data.order.law import Key
from lun.data.order.position_sampler import UNCOUNTED, OnceBatchSampler, Order, PositionBatchSampler, Window

law = settings(deadline=None, max_examples=40)
small = st.integers(1, 6)
examples = st.integers(1, 40)


def stream(n: int, window: Window, start: int, batches: int) -> list[list[tuple[int, int]]]:
    position = Position(slot=start, step=start // window.global_batch)
    sampler = PositionBatchSampler(Order(n, 5), window, position, total_batches=batches)
    return list(islice(sampler, batches))


def step_of_all_ranks(n: int, mb: int, accumulate: int, ranks: int, start: int) -> list[tuple[int, int]]:
    keys = [
        key
        for rank in range(ranks)
        for batch in stream(n, Window(mb, accumulate, ranks, rank), start, accumulate)
        for key in batch
    ]
    return sorted(keys)


@law
@given(mb=small, accumulate=small, ranks=small, steps=st.integers(0, 5), n=examples)
def test_a_window_is_shared_out_exactly_over_ranks_and_micro_batches(mb, accumulate, ranks, steps, n):
    size = Window(mb, accumulate, ranks).global_batch
    keys = step_of_all_ranks(n, mb, accumulate, ranks, steps * size)
    assert [key.slot for key in keys] == list(range(steps * size, (steps + 1) * size))


@law
@given(n=examples, seed=st.integers(0, 2**31), epoch=st.integers(0, 1000))
def test_every_epoch_is_a_permutation(n, seed, epoch):
    order = Order(n, seed)
    met = [order.key(slot) for slot in range(epoch * n, (epoch + 1) * n)]
    assert {order.epoch(key.slot) for key in met} == {epoch}
    assert order.start_of(epoch) == epoch * n
    assert sorted(key.example for key in met) == list(range(n))


@law
@given(n=examples, mb=small, accumulate=small, ranks=small, done=st.integers(0, 4), data=st.data())
def test_a_resumed_stream_goes_on_where_the_straight_one_would(n, mb, accumulate, ranks, done, data):
    window = Window(mb, accumulate, ranks, rank=data.draw(st.integers(0, ranks - 1)))
    straight = stream(n, window, 0, 6 * accumulate)
    assert stream(n, window, done * window.global_batch, (6 - done) * accumulate) == straight[done * accumulate :]


@law
@given(
    n=examples,
    split=st.sampled_from([(12, 1, 1), (1, 12, 1), (3, 2, 2), (2, 3, 2), (1, 1, 12), (4, 1, 3)]),
    start=st.integers(0, 100),
)
def test_another_split_of_the_same_global_batch_gives_the_same_examples(n, split, start):
    assert step_of_all_ranks(n, *split, start) == step_of_all_ranks(n, 6, 2, 1, start)


def test_without_ranks_the_examples_come_in_the_order_of_their_slots():
    assert [key[0] for batch in stream(9, Window(3, 2), 6, 4) for key in batch] == list(range(6, 18))


def test_epochs_are_shuffled_differently_and_by_the_seed():
    first, second = ([Order(50, 0).key(slot)[1] for slot in range(start, start + 50)] for start in (0, 50))
    other = [Order(50, 1).key(slot)[1] for slot in range(50)]
    assert first != second
    assert first != other


def test_an_unshuffled_order_repeats_the_dataset():
    order = Order(3, 0, shuffle=False)
    assert [order.key(slot)[:2] for slot in range(5)] == [(0, 0), (1, 1), (2, 2), (3, 0), (4, 1)]


def test_slots_may_be_asked_for_in_any_order():
    order = Order(7, 3)
    forwards = [order.key(slot) for slot in range(70)]
    assert [order.key(slot) for slot in reversed(range(70))] == forwards[::-1]


def test_at_most_two_permutations_are_kept():
    order = Order(2, 0)
    for slot in range(20):
        order.key(slot)
    assert sorted(order.shuffles.kept) == [8, 9]


def test_the_position_is_read_when_the_iteration_begins():
    position = Position()
    sampler = PositionBatchSampler(Order(100, 0), Window(2), position, total_batches=3)
    position.slot = 10
    batches = iter(sampler)
    position.slot = 50
    assert [key.slot for key in next(batches)] == [10, 11]


def test_every_micro_batch_of_a_window_is_told_the_steps_before_it():
    sampler = PositionBatchSampler(Order(100, 0), Window(2, accumulate=3), Position(slot=18, step=7), total_batches=9)
    assert [{key.step for key in batch} for batch in islice(sampler, 7)] == [{7}, {7}, {7}, {8}, {8}, {8}, {9}]


def test_the_length_is_told_but_does_not_end_the_stream():
    sampler = PositionBatchSampler(Order(4, 0), Window(2), Position(), total_batches=3)
    assert len(sampler) == 3
    assert len(list(islice(sampler, 10))) == 10


@law
@given(n=examples, mb=small, ranks=small, shuffle=st.booleans())
def test_validation_reads_every_example_once_over_the_ranks(n, mb, ranks, shuffle):
    samplers = [OnceBatchSampler(Order(n, 0, shuffle), Window(mb, 1, ranks, rank)) for rank in range(ranks)]
    met = Counter(key for sampler in samplers for batch in sampler for key in batch if key.slot != UNCOUNTED)
    assert met == Counter(Key(index, index) for index in range(n))
    assert len({len(list(sampler)) for sampler in samplers} | {len(sampler) for sampler in samplers}) == 1


def test_an_empty_dataset_has_no_order():
    with pytest.raises(ValueError, match="at least one example"):
        Order(0, 0)
