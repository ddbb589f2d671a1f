"""Which modules are gathered on their own."""

from support.sd3 import tiny_mmdit
from support.tiny_networks import SHAPE
from torch import nn

from ldm.modules.networks.unet import UNet
from lun.strategies.blocks import blocks_of


def layer(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, width, bias=False), nn.GELU())


def test_members_of_lists_are_blocks_from_a_size_on() -> None:
    network = nn.Module()
    network.layers = nn.ModuleList([layer(4), layer(2), layer(5)])
    network.head = layer(9)
    assert blocks_of(network, 16) == [network.layers[0], network.layers[2]]


def test_what_an_inner_block_holds_does_not_count_for_the_outer_one() -> None:
    outer = nn.Module()
    outer.inner = nn.ModuleList([layer(4)])
    outer.rest = layer(3)
    network = nn.Module()
    network.layers = nn.ModuleList([outer])
    assert blocks_of(network, 16) == [outer.inner[0]]
    assert blocks_of(network, 9) == [outer.inner[0], outer]


def test_single_layers_and_frozen_ones_are_no_blocks() -> None:
    network = nn.Module()
    network.layers = nn.ModuleList([nn.Linear(9, 9), layer(9).requires_grad_(False)])
    assert blocks_of(network, 1) == []


def test_a_frozen_block_with_a_small_adapter_is_gathered_on_its_own() -> None:
    network = nn.Module()
    network.layers = nn.ModuleList([layer(9).requires_grad_(False), layer(9).requires_grad_(False)])
    network.layers[1][0].adapter = nn.Linear(9, 1)  # type: ignore[union-attr, index]
    assert blocks_of(network, 81) == [network.layers[1]]


def test_what_stays_whole_does_not_count() -> None:
    network = nn.Module()
    network.layers = nn.ModuleList([layer(9).requires_grad_(False), layer(9).requires_grad_(False)])
    network.layers[0][0].adapter = nn.Linear(9, 1)  # type: ignore[union-attr, index]
    network.layers[1][0].adapter = nn.Linear(9, 9)  # type: ignore[union-attr, index]
    whole = {parameter for parameter in network.parameters() if not parameter.requires_grad}
    assert blocks_of(network, 81, whole) == [network.layers[1]]


def test_the_blocks_of_stable_diffusion_3_are_found() -> None:
    network = tiny_mmdit("medium 3.5")
    blocks = blocks_of(network, 2000)
    assert [type(block).__name__ for block in blocks] == ["JointTransformerBlock"] * 3
    assert blocks_of(network.requires_grad_(False), 2000) == []


def test_a_block_that_a_network_names_is_not_cut_further() -> None:
    """Of the UNet's transformer blocks the feed-forward holds a list of its own."""
    unet = UNet(from_scratch=True, **SHAPE)
    kinds = {type(block).__name__ for block in blocks_of(unet, 500)}
    assert "BasicTransformerBlock" in kinds and "GEGLU" not in kinds
