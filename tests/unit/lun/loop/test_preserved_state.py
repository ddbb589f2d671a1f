"""A look at a model leaves no trace."""

import random

import pytest
import torch
from torch import nn

from lun.loop.preserved_state import preserved_state


def test_each_part_gets_back_its_own_mode():
    model = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Dropout()))
    model.train()
    model[0].eval()
    with preserved_state(model):
        assert not any(part.training for part in model.modules())
    assert [part.training for part in model.modules()] == [True, False, True, True]


def test_modes_come_back_after_an_error():
    model = nn.Linear(1, 1).train()
    with pytest.raises(ValueError), preserved_state(model):
        raise ValueError
    assert model.training


def test_random_states_are_as_if_nothing_was_drawn():
    model = nn.Linear(1, 1)
    torch.manual_seed(1)
    random.seed(1)
    expected = torch.rand(3).tolist(), random.random()
    torch.manual_seed(1)
    random.seed(1)
    with preserved_state(model):
        torch.rand(9)
        random.random()
    assert (torch.rand(3).tolist(), random.random()) == expected


def test_no_gradients_are_recorded():
    with preserved_state(nn.Linear(1, 1)):
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled()
