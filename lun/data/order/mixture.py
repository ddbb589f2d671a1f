"""Several sets in one endless sequence: which set each place belongs to, and which number within that set.

Set k has the weight w_k; W is their sum and P_k = w_1 + ... + w_k. Places are cut into blocks of L. The sets 1 ... k
have floor(j L P_k / W) places before block j, the set k alone the difference c_k(j) of two such numbers: always within
1 of its share j L w_k / W. Block j has c_k(j + 1) - c_k(j) places of set k, in an order shuffled by (seed, j), and each
set's numbers come as 0, 1, 2 ... So any place can be asked for alone, and nothing is stored.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, lcm

import numpy as np
import torch

from ldm.diffusion.draws import key

LEAST_BLOCK = 16


class Mixture:
    """The law above for sets of which `rates` examples are read an epoch; only their ratios count.

    whole  a block is one epoch, so that after each epoch every set was read exactly as often as said; for whole rates.
           Else blocks are as short as the smallest set allows, for shares that hold at every moment
    what   distinguishes the mixtures of one seed
    """

    def __init__(self, rates: Sequence[Fraction], whole: bool, seed: int, *what: int) -> None:
        if not rates or min(rates) <= 0:
            raise ValueError(f"a mixture needs rates above 0, got {rates}")
        scale = lcm(*(rate.denominator for rate in rates))
        self.weights = [int(rate * scale) for rate in rates]
        self.total = sum(self.weights)
        self.block = self.total // scale if whole else block_length(self.weights)
        self.seed = seed
        self.what = what
        self._kept: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def __call__(self, place: int) -> tuple[int, int]:
        """(which set, number within it) at `place`."""
        if len(self.weights) == 1:
            return 0, place
        block, turn = divmod(place, self.block)
        sets, numbers = self._shuffled(block)
        return int(sets[turn]), int(numbers[turn])

    def counts(self, place: int) -> list[int]:
        """How many places of each set lie before `place`."""
        if len(self.weights) == 1:
            return [place]
        block, turn = divmod(place, self.block)
        counts = self._before(block)
        if turn:
            inside = np.bincount(self._shuffled(block)[0][:turn], minlength=len(counts))
            counts = [count + more for count, more in zip(counts, inside.tolist(), strict=True)]
        return counts

    def _before(self, block: int) -> list[int]:
        """How many places of each set lie before `block`."""
        counts, upto, before = [], 0, 0
        for weight in self.weights:
            upto += weight
            bound = block * self.block * upto // self.total
            counts.append(bound - before)
            before = bound
        return counts

    def _shuffled(self, block: int) -> tuple[np.ndarray, np.ndarray]:
        """(L,) the set of each place of `block`, and (L,) its number within the set."""
        if block not in self._kept:
            while len(self._kept) > 1:
                del self._kept[min(self._kept)]
            first = self._before(block)
            counts = np.array(self._before(block + 1), dtype=np.int64) - np.array(first, dtype=np.int64)
            generator = torch.Generator().manual_seed(key(self.seed, "mix", block, *self.what))
            order = torch.randperm(self.block, generator=generator).numpy()
            sets = np.repeat(np.arange(len(counts)), counts)[order]
            numbers = np.empty(self.block, dtype=np.int64)
            for which, count in enumerate(counts):
                numbers[sets == which] = np.arange(first[which], first[which] + count)
            self._kept[block] = (sets, numbers)
        return self._kept[block]


def block_length(weights: Sequence[int]) -> int:
    """The smallest power of two in which each set has two places or more, and at least `LEAST_BLOCK`."""
    least = max(LEAST_BLOCK, ceil(Fraction(2 * sum(weights), min(weights))))
    return 1 << (least - 1).bit_length()
