"""Which of many 64-bit hashes are near one another, without comparing all with all.

Two hashes that differ in at most 5 bits agree in all but 5 of any bands that the 64 bits are cut into. So it is enough
to look, for each choice of bands that are left when 5 are taken away, at the hashes that agree in these: the fewer bits
two random ones share by accident, the more bands. (Multi-index hashing: Norouzi, Punjani and Fleet 2012.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

NEAR = 5
"""Bits of 64 in which two pictures may differ and still look alike."""

_BITS = 64
_MOST_BANDS = NEAR + 4
_Places = NDArray[np.int64]


def near(hashes: NDArray[np.uint64]) -> list[list[int]]:
    """Groups of two or more (n,) uint64 that differ from another of their group in at most 5 bits, by place."""
    different, which = np.unique(hashes, return_inverse=True)
    root = np.arange(len(different))
    for first, second in candidates(different):
        close = np.bitwise_count(different[first] ^ different[second]) <= NEAR
        root = _joined(root, first[close], second[close])
    return groups_of(root[which]) if len(hashes) else []


def groups_of(labels: NDArray[np.integer]) -> list[list[int]]:
    """The places of each label that two or more have, by their first place."""
    order = np.argsort(labels, kind="stable")
    ends = np.flatnonzero(np.diff(labels[order])) + 1
    return sorted((group.tolist() for group in np.split(order, ends) if len(group) > 1), key=lambda group: group[0])


def candidates(different: NDArray[np.uint64]) -> Iterator[tuple[_Places, _Places]]:
    """Pairs of places (first, second) among which all are that differ in at most 5 bits; some more often than once."""
    for mask in _masks(len(different)):
        kept = different & mask
        order = np.argsort(kept)
        kept = kept[order]
        places, apart = np.arange(len(kept)), 1
        while len(places := places[: np.searchsorted(places, len(kept) - apart)]):
            places = places[kept[places] == kept[places + apart]]  # what agrees stands side by side
            yield order[places], order[places + apart]
            apart += 1


def _masks(count: int) -> Iterator[np.uint64]:
    """The bits of each choice of bands: so many that few of `count` random hashes agree in them."""
    wanted = max(count, 2).bit_length() - 2
    bands = next((b for b in range(NEAR + 1, _MOST_BANDS) if (b - NEAR) * (_BITS // b) >= wanted), _MOST_BANDS)
    edges = [_BITS * number // bands for number in range(bands + 1)]
    parts = [((1 << (high - low)) - 1) << low for low, high in pairwise(edges)]
    for chosen in combinations(parts, bands - NEAR):
        yield np.uint64(sum(chosen))


def _joined(root: _Places, first: _Places, second: _Places) -> _Places:
    """`root` of each place, the least of its group, once the groups of each pair are one."""
    while len(first):
        ours, theirs = root[first], root[second]
        apart = ours != theirs
        first, second, ours, theirs = first[apart], second[apart], ours[apart], theirs[apart]
        np.minimum.at(root, np.maximum(ours, theirs), np.minimum(ours, theirs))
        while (further := root[root]).tobytes() != root.tobytes():
            root = further
    return root
