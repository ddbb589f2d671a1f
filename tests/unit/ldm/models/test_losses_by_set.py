"""Losses by set: means over examples of all ranks, and nothing of sets that were not read."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ldm.models.losses_by_set import LossesBySet

CPU = torch.device("cpu")


def alone(tensor: Tensor, reduce_op: str) -> Tensor:
    assert reduce_op == "sum"
    return tensor


def test_means_are_over_the_examples_of_a_set_since_they_were_last_taken() -> None:
    by_set = LossesBySet()
    by_set.add(["a", "b", "a"], torch.tensor([1.0, 7.0, 2.0], requires_grad=True))
    by_set.add(["a"], torch.tensor([6.0]))
    by_set.add((), torch.tensor([99.0]))
    assert by_set.take(["a", "b", "c"], alone, CPU) == {"a": 3.0, "b": 7.0}
    by_set.add(["c"], torch.tensor([5.0]))
    assert by_set.take(["a", "b", "c"], alone, CPU) == {"c": 5.0}


def test_ranks_count_as_many_examples_as_they_read() -> None:
    ranks = [LossesBySet(), LossesBySet()]
    ranks[0].add(["a", "a"], torch.tensor([1.0, 3.0]))
    ranks[1].add(["a", "b"], torch.tensor([5.0, 4.0]))
    sent: list[Tensor] = []

    def keep(tensor: Tensor, **how: Any) -> Tensor:
        sent.append(tensor)
        return tensor

    for rank in ranks:
        rank._sums, kept = dict(rank._sums), dict(rank._sums)
        rank.take(["a", "b"], keep, CPU)
        rank._sums = kept
    assert ranks[0].take(["a", "b"], lambda tensor, **how: sum(sent), CPU) == {"a": 3.0, "b": 4.0}


def test_a_loss_that_is_not_finite_is_that_of_its_set_alone() -> None:
    by_set = LossesBySet()
    by_set.add(["a", "b"], torch.tensor([float("nan"), 1.0]))
    found = by_set.take(["a", "b"], alone, CPU)
    assert found["b"] == 1.0 and found["a"] != pytest.approx(found["a"])
