"""Frozen networks in main memory."""

import pytest
import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.modules import offload
from ldm.modules.offload import computes_on, keep_in_main_memory, stay_in_main_memory

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies stand for what lies on an accelerator."""
    monkeypatch.setattr(offload, "_visiting", lambda home, device: home.clone())


class Watched(nn.Module):
    """Notes where its weights are while it computes."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 2).requires_grad_(False)
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(self.inner.weight.data_ptr())
        return self.inner(x)


def test_weights_are_on_the_device_while_it_computes_and_in_main_memory_otherwise() -> None:
    network = Watched()
    before = network(torch.ones(1, 2))
    keep_in_main_memory(network, CPU)
    home = network.inner.weight.data_ptr()
    assert torch.equal(network(torch.ones(1, 2)), before)
    assert network.seen[1] != home and network.inner.weight.data_ptr() == home


def test_they_come_home_after_an_error() -> None:
    network = Watched()
    keep_in_main_memory(network, CPU)
    home = network.inner.weight.data_ptr()
    with pytest.raises(RuntimeError):
        network(torch.ones(1, 3))
    assert network.inner.weight.data_ptr() == home


def test_weights_that_are_spread_over_ranks_are_refused() -> None:
    network = nn.Linear(2, 2)
    network.weight.ds_id = 0  # type: ignore[assignment]
    with pytest.raises(Fault, match="OffloadFrozen"):
        keep_in_main_memory(network, CPU)


def test_a_module_that_stays_is_not_moved_with_the_model_around_it() -> None:
    model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
    stay_in_main_memory(model[0])
    model.to("meta")
    assert [part.weight.device.type for part in model] == ["cpu", "meta"]
    assert computes_on(model[0]) == CPU
    keep_in_main_memory(model[0], torch.device("meta"))
    assert computes_on(model[0]) == torch.device("meta") and model[0].weight.device == CPU
