"""The law by which several sets share one sequence: shares, laps, and every place alone."""

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lun.data.order.mixture import Mixture, block_length

law = settings(deadline=None, max_examples=40)
rates = st.lists(st.integers(1, 40), min_size=2, max_size=5).map(lambda found: [Fraction(one) for one in found])
odd_rates = st.lists(st.fractions(Fraction(1, 7), 30, max_denominator=7), min_size=2, max_size=4)


@law
@given(rates=odd_rates, places=st.integers(1, 300), seed=st.integers(0, 9))
def test_the_numbers_of_each_set_come_in_turn_without_gap(rates, places, seed):
    mixture = Mixture(rates, whole=False, seed=seed)
    met: dict[int, list[int]] = {}
    for place in range(places):
        which, number = mixture(place)
        met.setdefault(which, []).append(number)
    assert all(numbers == list(range(len(numbers))) for numbers in met.values())


@law
@given(rates=odd_rates, place=st.integers(0, 10**9), whole=st.booleans())
def test_counts_are_those_of_the_places_before_however_far_one_jumps(rates, place, whole):
    whole = whole and all(rate.denominator == 1 for rate in rates)
    mixture, cold = Mixture(rates, whole, seed=3), Mixture(rates, whole, seed=3)
    counts = mixture.counts(place)
    for later in range(place, place + 40):
        assert cold.counts(later) == counts
        which, number = mixture(later)
        assert number == counts[which]
        counts[which] += 1


@law
@given(rates=odd_rates, blocks=st.integers(1, 10**6))
def test_at_the_end_of_a_block_every_set_is_within_one_of_its_share(rates, blocks):
    mixture = Mixture(rates, whole=False, seed=0)
    place = blocks * mixture.block
    for count, weight in zip(mixture.counts(place), mixture.weights, strict=True):
        assert abs(count - Fraction(place * weight, mixture.total)) < 1


@law
@given(rates=odd_rates, place=st.integers(0, 3000))
def test_at_no_place_is_a_set_further_from_its_share_than_a_quarter_of_a_block(rates, place):
    mixture = Mixture(rates, whole=False, seed=1)
    for count, weight in zip(mixture.counts(place), mixture.weights, strict=True):
        assert abs(count - Fraction(place * weight, mixture.total)) <= mixture.block / 4 + 2


@law
@given(rates=rates, epoch=st.integers(0, 1000))
def test_a_whole_epoch_reads_every_set_exactly_as_often_as_said(rates, epoch):
    mixture, n = Mixture(rates, whole=True, seed=2), int(sum(rates))
    assert mixture.block == n
    met = Counter(mixture(place)[0] for place in range(epoch * n, epoch * n + n))
    assert [met[which] for which in range(len(rates))] == rates


@law
@given(weights=st.lists(st.integers(1, 500), min_size=1, max_size=6))
def test_a_block_holds_at_least_two_places_of_each_set(weights):
    length = block_length(weights)
    assert length >= 16 and length & (length - 1) == 0
    assert length * min(weights) >= 2 * sum(weights)


def test_one_set_alone_is_not_reordered():
    mixture = Mixture([Fraction(7)], whole=True, seed=0)
    assert [mixture(place) for place in range(9)] == [(0, place) for place in range(9)]
    assert mixture.counts(5) == [5]


def test_another_seed_and_another_stream_mix_otherwise():
    laws = [Mixture([Fraction(3), Fraction(5)], False, seed, *what) for seed, *what in ((0,), (1,), (0, 64, 64))]
    orders = [[law(place)[0] for place in range(64)] for law in laws]
    assert len({tuple(order) for order in orders}) == 3


@pytest.mark.parametrize("rates", [[], [Fraction(0), Fraction(1)]])
def test_no_set_can_have_no_share(rates):
    with pytest.raises(ValueError):
        Mixture(rates, whole=False, seed=0)
