"""Counting the bytes that are alive."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from lun.memory.live import LiveBytes


@pytest.mark.parametrize("fake", [False, True])
def test_what_autograd_keeps_lives_until_the_backward_pass(fake: bool) -> None:
    if fake:
        with FakeTensorMode():
            check()
    else:
        check()


def check() -> None:
    with LiveBytes() as live:
        weight = torch.ones(10, 10, requires_grad=True)
        x = torch.ones(5, 10)
        assert live.now == 4 * (100 + 50)
        with live.phase() as peak:
            y = (x @ weight).exp()  # exp keeps its result, the product is gone
            assert live.now == 4 * (100 + 50 + 50)
            z = y.sum()
            del y
            assert live.now == 4 * (100 + 50 + 50 + 1)
            z.backward()
            assert live.now == 4 * (100 + 50 + 1 + 100)
        assert peak() >= 4 * (100 + 50 + 50 + 1 + 100)


def test_a_view_is_no_memory_of_its_own() -> None:
    with LiveBytes() as live:
        whole = torch.zeros(8)
        part = whole[2:]
        assert live.now == 32
        del whole
        assert live.now == 32 and len(part) == 6
