"""Blocks that are streamed from main memory: they compute what they did, and few of them are on the device at once."""

import weakref
from typing import Any

import pytest
import torch
from support.sd3 import tiny_mmdit, told
from support.tiny_networks import SHAPE, adapt
from torch import Tensor, nn

from ldm.adapters.quantisation import Int8
from ldm.diffusion.conditioning import Conditioning
from ldm.modules import offload
from ldm.modules.networks.unet import UNet
from ldm.modules.streamed_blocks import StreamedBlocks, blocks_of_network, frozen_in, stay_in_parts
from ldm.training.quantised import QuantisedLinear

CPU = torch.device("cpu")


class Device:
    """Stands for an accelerator: counts the copies of blocks that are alive, as bytes and at most at once."""

    def __init__(self) -> None:
        self.copied = self.now = self.peak = 0

    def visiting(self, home: Tensor, device: torch.device) -> Tensor:
        copy = home.clone()
        self.copied += copy.nbytes
        self.now += copy.nbytes
        self.peak = max(self.peak, self.now)
        weakref.finalize(copy.untyped_storage(), self._gone, copy.nbytes)
        return copy

    def _gone(self, size: int) -> None:
        self.now -= size


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    found = Device()
    monkeypatch.setattr(offload, "_visiting", found.visiting)
    return found


def adapted(kind: str, twice: bool) -> Any:
    if kind == "MMDiT":
        network: Any = tiny_mmdit("medium 3.5", gradient_checkpointing=twice)
    else:
        torch.manual_seed(0)
        network = UNet(from_scratch=True, **SHAPE, gradient_checkpointing=twice, dropout=0.1)
    network.requires_grad_(False)
    adapt({"unet": network}, "unet.*attn*.to_q", "unet.*ff.net*")
    return network.train()


def step(network: Any, seed: int) -> Tensor:
    """The loss of one micro-batch, whose gradients are added to those that are there."""
    torch.manual_seed(seed)
    mmdit = "MMDiT" in type(network).__name__
    cond = told() if mmdit else Conditioning(torch.randn(2, 3, 8))
    side = 8 if mmdit else 4
    clock = torch.tensor([3.0, 500.0])
    loss: Tensor = network(torch.randn(2, 4, side, side), clock, cond).square().mean()
    loss.backward()
    return loss.detach()


def gradients(network: nn.Module) -> dict[str, Tensor]:
    return {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


def size(block: nn.Module) -> int:
    return sum(tensor.nbytes for tensor in frozen_in(block))


@pytest.mark.parametrize("twice", [True, False], ids=["checkpointed", "not"])
@pytest.mark.parametrize("kind", ["UNet", "MMDiT"])
def test_losses_and_gradients_are_the_same_to_the_bit_and_two_blocks_are_there_at_once(
    kind: str, twice: bool, device: Device
) -> None:
    plain, streamed = adapted(kind, twice), adapted(kind, twice)
    names = list(streamed.state_dict())
    blocks = blocks_of_network(streamed)
    StreamedBlocks(streamed, blocks, CPU)
    assert len(blocks) == (3 if kind == "MMDiT" else 14)
    for seed in range(3):
        device.peak = device.now
        assert torch.equal(step(plain, seed), step(streamed, seed))
    found = gradients(streamed)
    assert found.keys() == gradients(plain).keys() and len(found) > 4
    assert all(torch.equal(gradient, found[name]) for name, gradient in gradients(plain).items())
    assert list(streamed.state_dict()) == names
    sizes = sorted(map(size, blocks))
    assert sizes[-1] <= device.peak <= sum(sizes[-2:])


def test_every_block_comes_twice_a_micro_batch_and_is_sent_for_ahead(device: Device) -> None:
    network = adapted("MMDiT", twice=True)
    blocks = blocks_of_network(network)
    streamed = StreamedBlocks(network, blocks, CPU)
    step(network, 0)
    device.copied = 0
    sent: list[bool] = []
    for visitor in streamed.visitors.values():
        arrive = visitor.arrive
        visitor.arrive = lambda v=visitor, a=arrive: (sent.append(v.is_sent), a())  # type: ignore[method-assign,misc]
    step(network, 1)
    total = sum(map(size, blocks))
    assert device.copied == 2 * total - size(blocks[0])  # which stayed from the backward pass before
    assert sent == [True] * 3 + [False] + [True] * 2  # the last one has left before its backward pass


def test_samples_need_each_block_once_and_leave_none_behind(device: Device) -> None:
    network = adapted("MMDiT", twice=True)
    StreamedBlocks(network, blocks_of_network(network), CPU)
    with torch.no_grad():
        network(torch.randn(2, 4, 8, 8), torch.ones(2), told())
    assert device.now == 0


def test_some_blocks_are_spread_evenly_and_the_others_stay(device: Device) -> None:
    network = adapted("UNet", twice=True)
    every = blocks_of_network(network)
    few = blocks_of_network(network, 3)
    assert [every.index(block) for block in few] == [0, 4, 9]
    plain = adapted("UNet", twice=True)
    StreamedBlocks(network, few, CPU)
    assert torch.equal(step(plain, 0), step(network, 0))
    assert blocks_of_network(network, 100) == every


def test_a_block_of_which_all_trains_is_none() -> None:
    assert blocks_of_network(UNet(from_scratch=True, **SHAPE)) == []


def test_weights_that_the_backward_pass_reads_of_a_layer_itself_are_there(device: Device) -> None:
    """As a quantised one does, which keeps nothing for it."""
    network = adapted("MMDiT", twice=True)
    blocks = blocks_of_network(network)
    layer = blocks[1].ff.net[2]
    vars(layer)["quantised_as"] = Int8()
    QuantisedLinear.take_over(layer, Int8())
    streamed = StreamedBlocks(network, blocks, CPU)
    home = layer.weight.data_ptr()
    read: list[int] = []
    matrix = layer.matrix
    layer.matrix = lambda dtype: (read.append(layer.weight.data_ptr()), matrix(dtype))[1]
    step(network, 0)
    assert len(read) >= 3 and home not in read
    assert len(streamed.visitors) == 3


def test_what_moves_a_model_leaves_frozen_weights_where_they_are_and_moves_adapters() -> None:
    network = adapted("MMDiT", twice=True)
    for block in blocks_of_network(network):
        stay_in_parts(block)
    network.to("meta")
    query = blocks_of_network(network)[0].attn.to_q
    assert query.weight.device.type == "cpu" and {p.device.type for p in query.adapter.parameters()} == {"meta"}
    assert network.network.proj_out.weight.is_meta
