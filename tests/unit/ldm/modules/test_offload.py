"""Frozen networks in main memory."""

import pytest
import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.modules.offload import keep_in_main_memory

META = torch.device("meta")  # stands for an accelerator: whoever computes there can be told from one on the CPU


class Watched(nn.Module):
    """Notes where its weights are while it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2).requires_grad_(False)
        self.seen: list[str] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(self.inner.weight.device.type)
        return self.inner(x)


def test_weights_are_on_the_device_while_it_computes_and_in_main_memory_otherwise() -> None:
    network = Watched()
    before = network.inner.weight.clone()
    keep_in_main_memory(network, META)
    network(torch.ones(1, 2, device=META))
    assert network.seen == ["meta"]
    assert network.inner.weight.device.type == "cpu" and torch.equal(network.inner.weight, before)


def test_they_come_home_after_an_error() -> None:
    network = Watched()
    keep_in_main_memory(network, META)
    with pytest.raises(RuntimeError):
        network(torch.ones(1, 3, device=META))
    assert network.inner.weight.device.type == "cpu"


def test_weights_that_are_spread_over_ranks_are_refused() -> None:
    network = nn.Linear(2, 2)
    network.weight.ds_id = 0  # type: ignore[assignment]
    with pytest.raises(Fault, match="OffloadFrozen"):
        keep_in_main_memory(network, META)
