"""Modules without memory for what they will be given."""

import pytest
import torch
from torch import nn

from ldm.modules.meta_init import give_memory, is_meta_init, meta_init


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("places", torch.arange(3), persistent=False)


def test_parameters_have_no_memory_and_buffers_have() -> None:
    with meta_init():
        assert is_meta_init()
        module = Counting()
    assert not is_meta_init()
    assert all(parameter.is_meta for parameter in module.parameters())
    assert module.get_buffer("places").tolist() == [0, 1, 2]


def test_modules_built_afterwards_are_as_ever() -> None:
    with meta_init():
        Counting()
    assert not any(parameter.is_meta for parameter in Counting().parameters())


def test_no_random_number_is_drawn_for_weights_that_come_from_elsewhere() -> None:
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    with meta_init():
        nn.Linear(300, 200)
    assert torch.equal(torch.rand(1), expected)


def test_no_initialiser_is_run_on_what_has_no_memory_but_on_what_has(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []
    monkeypatch.setattr(nn.init, "_no_grad_uniform_", lambda tensor, *_: ran.append(tensor.is_meta))
    with meta_init():
        nn.Linear(3, 2)
        nn.init.uniform_(torch.empty(3))
        assert nn.init.constant_(torch.empty(3), 2.0).tolist() == [2.0, 2.0, 2.0]
    assert ran == [False]


def test_memory_comes_with_the_same_shapes_and_freezing() -> None:
    with meta_init():
        module = Counting()
    module.linear.bias.requires_grad_(False)
    give_memory(module)
    assert [tuple(parameter.shape) for parameter in module.parameters()] == [(2, 3), (2,)]
    assert [parameter.requires_grad for parameter in module.parameters()] == [True, False]
    assert not any(parameter.is_meta for parameter in module.parameters())


def test_torch_keeps_no_trace_of_it_not_even_after_an_error() -> None:
    register = nn.Module.register_parameter
    with pytest.raises(ValueError, match="half built"), meta_init():
        assert nn.Module.register_parameter is register
        raise ValueError("half built")
    assert not is_meta_init()
