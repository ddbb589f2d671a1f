"""The validation loss is an exact mean over examples and ranks."""

from typing import Any

import pytest
import torch
from torch import Tensor

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.objective import Losses
from ldm.models.diffusion.validation import ValidationLoss


def losses(*values: float) -> Losses:
    simple = torch.tensor(values)
    return Losses(torch.zeros(len(values), dtype=torch.int64), simple, 2 * simple)


def one_rank(tensor: Tensor, reduce_op: str) -> Tensor:
    assert reduce_op == "sum"
    return tensor


def test_a_short_last_batch_weighs_as_much_as_its_examples() -> None:
    validation = ValidationLoss()
    validation.add("", losses(1.0, 2.0, 3.0))
    validation.add("", losses(10.0))
    assert validation.metrics(one_rank) == {"val/loss_simple": pytest.approx(4.0), "val/loss": pytest.approx(8.0)}


def test_ranks_with_unequal_shares_give_the_mean_over_all_examples() -> None:
    validation = ValidationLoss()
    validation.add("", losses(1.0, 3.0))
    other = torch.tensor([1.0, 8.0, 16.0])
    metrics = validation.metrics(lambda tensor, reduce_op: tensor + other)
    assert metrics["val/loss_simple"] == pytest.approx(4.0)


def test_raw_and_averaged_weights_are_told_apart() -> None:
    validation = ValidationLoss()
    validation.add("", losses(1.0))
    validation.add("_ema", losses(2.0))
    assert sorted(validation.metrics(one_rank)) == [
        "val/loss",
        "val/loss_ema",
        "val/loss_simple",
        "val/loss_simple_ema",
    ]


def test_a_new_validation_begins_at_nothing() -> None:
    validation = ValidationLoss()
    validation.add("", losses(1.0))
    validation.restart()
    assert validation.metrics(one_rank) == {}


def test_what_was_encoded_comes_back_once_without_its_pictures() -> None:
    validation = ValidationLoss()
    batch: dict[str, Any] = {"image": torch.ones(1), "caption": ["a"], "slot": torch.tensor([4])}
    validation.keep(torch.ones(1, 2), batch, BatchDraws(0, [4]))
    ((x0, told, draws),) = validation.kept()
    assert torch.equal(x0, torch.ones(1, 2)) and sorted(told) == ["caption", "slot"] and len(draws) == 1
    assert list(validation.kept()) == []
