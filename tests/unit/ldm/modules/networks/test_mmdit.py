"""Stable Diffusion 3's network behind the project's calling convention: the library's numbers, positions, names."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import SD3Transformer2DModel
from support.sd3 import KINDS, TINY, tiny_mmdit, told, unused
from torch import Tensor

from ldm.diffusion.draws import BatchDraws
from ldm.errors import Fault
from ldm.files.load import load_part
from ldm.files.write import write_safetensors
from ldm.modules.meta_init import give_memory, meta_init
from ldm.modules.networks.mmdit import MMDiT
from lun.strategies.blocks import blocks_of

T = torch.tensor([900.25, 17.5])
SIDES = ((8, 8), (4, 12), (24, 24))
# Parameters and tensors of the published networks.
PUBLISHED = {
    "sd3-medium": (2_028_328_000, 683, {"num_layers": 24, "pos_embed_max_size": 192}),
    "sd35-medium": (
        2_243_171_520,
        909,
        {"num_layers": 24, "pos_embed_max_size": 384, "dual_attention_layers": [*range(13)], "qk_norm": "rms_norm"},
    ),
    "sd35-large": (8_056_627_520, 1227, {"num_layers": 38, "pos_embed_max_size": 192, "qk_norm": "rms_norm"}),
}


@torch.no_grad()
@pytest.mark.parametrize("kind", KINDS)
def test_it_computes_what_the_library_does(kind: str) -> None:
    ours = tiny_mmdit(kind)
    theirs = SD3Transformer2DModel(**{**TINY, **KINDS[kind]})
    theirs.load_state_dict({key.removeprefix("network."): value for key, value in ours.state_dict().items()})
    cond = told()
    for sides in SIDES:
        x = torch.randn(2, 4, *sides)
        want = theirs(x, cond.context, cond.pooled, T, return_dict=False)[0]
        assert torch.equal(ours(x, T, cond), want)


@pytest.mark.parametrize("kind", KINDS)
def test_idle_is_exactly_what_nothing_depends_on(kind: str) -> None:
    network = tiny_mmdit(kind)
    idle = {id(parameter) for part in network.idle() for parameter in part.parameters()}
    names = {name for name, parameter in network.named_parameters() if id(parameter) in idle}
    assert names and unused(network, network(torch.randn(2, 4, 8, 8), T, told())) == names


@torch.no_grad()
def test_at_random_a_picture_lies_at_a_place_of_the_table_that_its_slot_decides() -> None:
    network = tiny_mmdit(positions="random")
    x, cond = torch.randn(2, 4, 8, 8), told()
    drawn = network.with_draws(cond, BatchDraws(3, [5, 6]))
    assert torch.equal(drawn.place, BatchDraws(3, [5, 6]).uniform("positions", (2,)))
    one = network(x[1:], T[1:], network.with_draws(cond.map(lambda rows: rows[1:]), BatchDraws(3, [6])))
    torch.testing.assert_close(network(x, T, drawn)[1:], one)
    assert not torch.allclose(network(x, T, cond)[1:], one, atol=1e-3)  # nothing is left of the last call's place
    assert tiny_mmdit().with_draws(cond, BatchDraws(3, [5, 6])) is cond


@torch.no_grad()
def test_a_place_reaches_every_window_of_the_table_and_no_other() -> None:
    patches = tiny_mmdit().network.pos_embed
    grid = patches.pos_embed.view(12, 12, -1)
    for share, first in ((0.0, 0), (0.4999, 4), (0.99999, 8)):
        patches.place = torch.tensor([[share, 0.0]])
        assert torch.equal(patches.window(4, 6)[0], grid[first : first + 4, :6].flatten(0, 1))
    patches.place = torch.full((1, 2), torch.tensor(1.0).nextafter(torch.tensor(0.0)).item())
    assert torch.equal(patches.window(12, 12)[0], grid.flatten(0, 1))


@torch.no_grad()
def test_clock_and_positions_are_exact_in_half_precision() -> None:
    """In bfloat16 987.17 would be 988, which moves a time embedding by a fifth."""
    network = tiny_mmdit().to(torch.bfloat16)
    assert network.network.pos_embed.pos_embed.dtype == torch.float32
    assert torch.equal(network.network.pos_embed.pos_embed, tiny_mmdit().network.pos_embed.pos_embed)
    seen: list[Tensor] = []
    network.network.time_text_embed.timestep_embedder.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    cond = told().map(lambda tensor: tensor.bfloat16())
    for clock in (987.17, 988.0):
        network(torch.zeros(2, 4, 8, 8, dtype=torch.bfloat16), torch.tensor([clock, clock]), cond)
    assert (seen[0] - seen[1]).float().norm() > 0.1 * seen[1].float().norm()


@pytest.mark.parametrize("sides", [(7, 8), (8, 26)])
def test_sides_that_are_no_whole_patches_or_beyond_the_table_are_refused(sides: tuple[int, int]) -> None:
    with pytest.raises(Fault, match="cannot be cut into patches") as caught:
        tiny_mmdit()(torch.zeros(2, 4, *sides), T, told())
    assert "multiples of 2 and at most 24" in caught.value.why


def test_a_network_that_is_not_told_captions_says_so() -> None:
    with pytest.raises(Fault, match="is not given both"):
        tiny_mmdit()(torch.zeros(2, 4, 8, 8), T, told()._replace(pooled=None))


def test_an_unknown_setting_is_refused_by_name() -> None:
    with pytest.raises(Fault, match="unknown setting num_block"):
        MMDiT(from_scratch=True, num_block=3)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_come_back_from_a_file_and_from_a_folder(kind: str, tmp_path: Path) -> None:
    network = tiny_mmdit(kind)
    disk = {f"model.diffusion_model.{key}": value for key, value in network.to_disk(network.state_dict()).items()}
    assert "model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight" in disk
    write_safetensors(tmp_path / "sd3.safetensors", disk)
    network.network.save_pretrained(tmp_path / "pipeline/transformer")
    config = {**TINY, **KINDS[kind]}
    for path, settings in ((tmp_path / "sd3.safetensors", config), (tmp_path / "pipeline", {})):
        assert equal(MMDiT(ckpt_path=str(path), **settings).state_dict(), network.state_dict())


def test_a_file_without_positions_gets_those_that_follow_from_its_size() -> None:
    network = tiny_mmdit()
    bare = {key: value for key, value in network.to_disk(network.state_dict()).items() if key != "pos_embed"}
    again = MMDiT(from_scratch=True, **TINY)
    again.network.pos_embed.pos_embed.zero_()
    load_part(again, bare, "a file")
    assert equal(again.state_dict(), network.state_dict())
    with meta_init():
        lazy = MMDiT(**TINY)
    assert lazy.network.pos_embed.pos_embed.is_meta
    load_part(lazy, bare, "a file")
    assert equal(lazy.state_dict(), network.state_dict())


def test_a_network_to_be_restored_has_memory_for_its_table() -> None:
    with meta_init():
        network = MMDiT(**TINY)
    give_memory(network)
    network.load_state_dict(tiny_mmdit().state_dict())
    assert equal(network.state_dict(), tiny_mmdit().state_dict())
    assert network.network.pos_embed.pos_embed.shape == (1, 144, 16)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_networks_have_their_sizes_and_a_unit_for_every_block(name: str) -> None:
    parameters, tensors, config = PUBLISHED[name]
    width = 64 * config["num_layers"]
    with meta_init():
        network = MMDiT(num_attention_heads=config["num_layers"], caption_projection_dim=width, **config)
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters
    assert len(network.state_dict()) == tensors
    blocks = blocks_of(network, 1_000_000)
    assert [block for block in blocks if type(block).__name__ == "JointTransformerBlock"] == [
        *network.network.transformer_blocks
    ]


def equal(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
