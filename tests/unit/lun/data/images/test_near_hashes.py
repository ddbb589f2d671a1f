"""Hashes that are near one another, found without comparing all with all."""

import numpy as np
import pytest

from lun.data.images.near_hashes import NEAR, candidates, near


def drawn(count: int, seed: int, changed: float = 0.25, most_bits: int = NEAR + 2) -> np.ndarray:
    """Random hashes, a share of which are another one with a few bits turned over."""
    numbers = np.random.default_rng(seed)
    hashes = numbers.integers(0, 2**64, count, dtype=np.uint64)
    for _ in range(int(count * changed)):
        source, place = numbers.integers(0, count, 2)
        bits = numbers.choice(64, numbers.integers(0, most_bits), replace=False).astype(np.uint64)
        hashes[place] = hashes[source] ^ np.bitwise_or.reduce(np.uint64(1) << bits, initial=np.uint64(0))
    return hashes


def by_comparing_all(hashes: np.ndarray) -> list[list[int]]:
    close = np.bitwise_count(hashes[:, None] ^ hashes[None, :]) <= NEAR
    label = np.arange(len(hashes))
    while True:
        further = np.where(close, label[None, :], len(hashes)).min(axis=1, initial=len(hashes))
        if (further == label).all():
            break
        label = further
    groups = [np.flatnonzero(label == one).tolist() for one in np.unique(label)]
    return sorted((group for group in groups if len(group) > 1), key=lambda group: group[0])


@pytest.mark.parametrize("count", [0, 1, 2, 7, 60, 800])
@pytest.mark.parametrize("seed", range(3))
def test_the_groups_are_those_of_comparing_all(count: int, seed: int) -> None:
    hashes = drawn(count, seed)
    assert near(hashes) == by_comparing_all(hashes)


def test_groups_are_chained_over_near_neighbours() -> None:
    hashes = np.array([0, 0b11111, 0b1111111111, 1 << 63, 2**64 - 1], np.uint64)
    assert near(hashes) == [[0, 1, 2, 3]]


def test_the_same_hash_many_times_is_one_group() -> None:
    assert near(np.full(50_000, 7, np.uint64)) == [list(range(50_000))]


@pytest.mark.parametrize("count", [1_000, 30_000, pytest.param(1_000_000, marks=pytest.mark.slow)])
def test_pairs_that_are_looked_at_grow_with_the_hashes_and_not_with_their_square(count: int) -> None:
    hashes = np.unique(drawn(count, 0, changed=0))
    assert sum(len(first) for first, _ in candidates(hashes)) < 64 * count


@pytest.mark.slow
def test_a_million_hashes_take_seconds() -> None:
    hashes = drawn(1_000_000, 0, changed=0.001, most_bits=NEAR)
    groups = near(hashes)
    assert 900 < sum(len(group) - 1 for group in groups) <= 1_000
