"""Metrics of a configuration: which names they may have, and what they give."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from ldm.errors import Fault
from ldm.models.metrics import Measured, Metrics


@pytest.mark.parametrize("name", ["loss", "loss_simple"])
def test_the_names_of_the_losses_are_taken(name: str) -> None:
    with pytest.raises(Fault, match="is a metric of every model"):
        Metrics({name: lambda measured: measured.x0.mean(1)})


def test_what_a_metric_draws_changes_no_later_draw_and_its_numbers_have_no_graph() -> None:
    batch = cast(Any, SimpleNamespace(x0=torch.ones(2, 3, requires_grad=True)))
    metrics = Metrics({"mean": lambda measured: measured.x0.mean(1) + 0 * torch.rand(2)})
    torch.manual_seed(0)
    before = torch.get_rng_state()
    found = metrics(cast(Measured, batch))
    assert torch.equal(torch.get_rng_state(), before)
    assert found["mean"].tolist() == [1.0, 1.0] and not found["mean"].requires_grad
