"""The average of schedule-free optimizers, where an EMA stands otherwise."""

import copy
from typing import Any

import pytest
import schedulefree
import torch
from torch import nn

from ldm.ema.schedule_free import ScheduleFree, is_schedule_free

KINDS: dict[str, dict[str, Any]] = {
    "AdamWScheduleFree": {},
    "AdamWScheduleFreePaper": {},
    "AdamWScheduleFreeReference": {},
    "RAdamScheduleFree": {},
    "SGDScheduleFree": {"momentum": 0.8},
    "SGDScheduleFreeReference": {"momentum": 0.8},
}


def trained(kind: str) -> tuple[nn.Module, Any]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    optimizer = getattr(schedulefree, kind)(model.parameters(), lr=0.02, **KINDS[kind])
    optimizer.train()
    for _ in range(9):
        model(torch.randn(3, 4)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model, optimizer


@pytest.mark.parametrize("kind", KINDS)
def test_it_gives_what_the_optimizers_own_switch_would_and_takes_nothing(kind: str) -> None:
    model, optimizer = trained(kind)
    y = copy.deepcopy(model.state_dict())
    average = ScheduleFree(model, [optimizer])
    x = average.averaged_state()
    with average.scope():
        assert average.swapped and all(torch.equal(value, x[name]) for name, value in model.state_dict().items())
        assert all(torch.equal(average.raw_state()[name], value) for name, value in y.items())
        assert all(torch.equal(average.averaged_state()[name], value) for name, value in x.items())
    assert all(torch.equal(value, y[name]) for name, value in model.state_dict().items())
    optimizer.eval()
    assert all(torch.equal(value, x[name]) for name, value in model.state_dict().items())
    assert any(not torch.equal(x[name], y[name]) for name in x)


def test_before_a_step_all_weights_are_the_average() -> None:
    model = nn.Linear(2, 2)
    average = ScheduleFree(model, [schedulefree.AdamWScheduleFree(model.parameters())])
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in average.averaged_state().items())


def test_it_cannot_be_put_in_twice() -> None:
    model, optimizer = trained("AdamWScheduleFree")
    average = ScheduleFree(model, [optimizer])
    with average.scope(), pytest.raises(RuntimeError, match="already"), average.scope():
        pass
    assert not average.swapped


def test_other_optimizers_are_none() -> None:
    model = nn.Linear(2, 2)
    assert is_schedule_free(schedulefree.RAdamScheduleFree(model.parameters()))
    assert not is_schedule_free(torch.optim.AdamW(model.parameters()))
