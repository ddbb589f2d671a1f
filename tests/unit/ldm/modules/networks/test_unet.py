"""The UNet's keys, weights and calling convention."""

import hashlib
import inspect
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import UNet2DConditionModel
from diffusers.loaders.single_file_utils import convert_ldm_unet_checkpoint
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.errors import Fault
from ldm.files.write import write_safetensors
from ldm.keys.split_checkpoint import UNET
from ldm.modules.meta_init import meta_init
from ldm.modules.networks.unet import UNet
from ldm.util import instantiate_from_config

TINY: dict[str, Any] = {
    "sample_size": 8,
    "block_out_channels": [8, 16],
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "attention_head_dim": 2,
    "cross_attention_dim": 12,
    "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
}
SD2 = {"cross_attention_dim": 1024, "attention_head_dim": [5, 10, 20, 20], "use_linear_projection": True}
SDXL = {
    "cross_attention_dim": 2048,
    "attention_head_dim": [5, 10, 20],
    "use_linear_projection": True,
    "block_out_channels": [320, 640, 1280],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "transformer_layers_per_block": [1, 2, 10],
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}


def on_meta(**config: Any) -> UNet:
    with torch.device("meta"):
        return UNet(from_scratch=True, **config)


def on_disk(network: UNet) -> dict[str, Tensor]:
    return network.to_disk(network.state_dict())


def equal(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)


@pytest.mark.parametrize(
    ("config", "parameters", "digest"),
    [
        ({"cross_attention_dim": 768}, 859_520_964, "31a978d7173d3cc6"),
        ({"cross_attention_dim": 768, "in_channels": 9}, 859_535_364, "a949138d81fff894"),
        (SD2, 865_910_724, "17ae407477a5f3ab"),
        (SDXL, 2_567_463_684, "6eaa83ce0c2e5988"),
    ],
    ids=["SD 1", "SD 1 inpainting", "SD 2", "SDXL"],
)
def test_a_published_networks_keys_and_shapes_are_exact(config: dict[str, Any], parameters: int, digest: str) -> None:
    network = on_meta(**config)
    table = "\n".join(sorted(f"{UNET}{key} {tuple(value.shape)}" for key, value in on_disk(network).items()))
    assert sum(p.numel() for p in network.parameters()) == parameters
    assert hashlib.sha256(table.encode()).hexdigest()[:16] == digest


blocks = st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=4)


@settings(deadline=None, max_examples=15)
@given(blocks=blocks)
def test_any_pattern_of_blocks_comes_back_key_for_key(blocks: list[tuple[bool, int]]) -> None:
    attends = [attention for attention, _ in blocks]
    network = on_meta(
        norm_num_groups=4,
        attention_head_dim=2,
        cross_attention_dim=12,
        block_out_channels=[8] * len(blocks),
        layers_per_block=[layers for _, layers in blocks],
        down_block_types=["CrossAttnDownBlock2D" if here else "DownBlock2D" for here in attends],
        up_block_types=["CrossAttnUpBlock2D" if here else "UpBlock2D" for here in reversed(attends)],
    )
    own, disk = network.state_dict(), on_disk(network)
    assert len(disk) == len(own)
    assert not any(key.startswith(("network.", "down_blocks", "up_blocks", "mid_block")) for key in disk)
    assert list(network.from_disk(disk)) == list(own)


def test_the_library_converts_our_keys_to_its_own() -> None:
    network = UNet(from_scratch=True, **TINY | {"layers_per_block": 2})
    prefixed = {UNET + key: value for key, value in on_disk(network).items()}
    config = {**network.network.config, "layers_per_block": 2}
    assert equal(convert_ldm_unet_checkpoint(prefixed, config), dict(network.network.state_dict()))


def test_going_to_disk_and_back_changes_no_bit() -> None:
    network = UNet(from_scratch=True, **TINY)
    assert equal(network.from_disk(on_disk(network)), network.state_dict())


def test_own_keys_are_taken_as_they_are() -> None:
    network = UNet(from_scratch=True, **TINY)
    assert equal(network.from_disk(network.state_dict()), network.state_dict())


@pytest.mark.parametrize("prefix", [UNET, ""], ids=["whole checkpoint", "network alone"])
def test_weights_come_from_a_file(prefix: str, tmp_path: Path) -> None:
    source = UNet(from_scratch=True, **TINY)
    others = {"first_stage_model.x": torch.ones(1)} if prefix else {}
    write_safetensors(tmp_path / "x.ckpt", {prefix + key: value for key, value in on_disk(source).items()} | others)
    network = UNet(ckpt_path=str(tmp_path / "x.ckpt"), **TINY)
    assert equal(network.state_dict(), source.state_dict())
    assert network.loaded_from == str(tmp_path / "x.ckpt")


def test_a_pipelines_folder_gives_weights_and_architecture(tmp_path: Path) -> None:
    source = UNet(from_scratch=True, **TINY)
    source.network.save_pretrained(tmp_path / "unet")
    network = UNet(ckpt_path=str(tmp_path))
    assert equal(network.state_dict(), source.state_dict())


def test_weights_of_another_architecture_are_refused(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x.safetensors", on_disk(UNet(from_scratch=True, **TINY)))
    with pytest.raises(Fault) as caught:
        UNet(ckpt_path=str(tmp_path / "x.safetensors"), **TINY | {"cross_attention_dim": 10})
    assert caught.value.id == "MOD03"
    assert "attn2.to_k.weight [8, 12] != [8, 10]" in caught.value.why


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(Fault, match="unknown setting block_out_chanels"):
        UNet(from_scratch=True, block_out_chanels=[8])


def test_the_context_reaches_the_network_and_concat_joins_the_channels() -> None:
    network = UNet(from_scratch=True, **TINY | {"in_channels": 9}).eval()
    x, t = torch.randn(2, 4, 8, 8), torch.tensor([3, 900])
    context, mask = torch.randn(2, 5, 12), torch.randn(2, 5, 8, 8)
    with torch.no_grad():
        output = network(x, t, Conditioning(context=context, concat=mask))
        direct = network.network(torch.cat([x, mask], 1), t, context).sample
    assert output.shape == x.shape
    assert torch.equal(output, direct)


def test_a_network_that_attends_asks_for_a_context() -> None:
    network = UNet(from_scratch=True, **TINY)
    with pytest.raises(Fault, match="nothing gives it one"):
        network(torch.randn(1, 4, 8, 8), torch.tensor([3]), Conditioning())


def test_a_network_without_attention_needs_no_context() -> None:
    plain = {"down_block_types": ["DownBlock2D"] * 2, "up_block_types": ["UpBlock2D"] * 2, "mid_block_type": None}
    network = UNet(from_scratch=True, **TINY | plain)
    x = torch.randn(1, 4, 8, 8)
    assert network(x, torch.tensor([3]), Conditioning()).shape == x.shape


def test_gradient_checkpointing_gives_the_same_gradients() -> None:
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        network = UNet(from_scratch=True, gradient_checkpointing=checkpointing, **TINY).train()
        network(torch.ones(1, 4, 8, 8), torch.tensor([3]), Conditioning(context=torch.ones(1, 5, 12))).sum().backward()
        gradients.append(network.network.conv_in.weight.grad)
    assert network.network.is_gradient_checkpointing
    assert torch.allclose(*gradients, atol=1e-6)


def test_a_folders_settings_give_way_to_the_configs(tmp_path: Path) -> None:
    source = UNet(from_scratch=True, **TINY)
    source.network.save_pretrained(tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["dropout"] == 0.0
    assert UNet(ckpt_path=str(tmp_path), dropout=0.25).network.config.dropout == 0.25


def test_null_in_the_place_of_a_number_is_a_fault_and_no_error_of_the_library() -> None:
    with pytest.raises(Fault, match="UNet cannot be built") as fault:
        instantiate_from_config(
            {"target": "ldm.modules.networks.unet.UNet", "params": TINY | {"norm_num_groups": None}}
        )
    assert fault.value.id == "CFG08"


ODD: list[Any] = [None, "x", -1, 0, 0.5, [0], [], {"a": 1}]


def test_odd_values_of_each_setting_are_taken_or_refused_in_words() -> None:
    names = inspect.signature(UNet2DConditionModel).parameters
    refused = 0
    for name, value in itertools.product(names, ODD):
        recipe = {"target": "ldm.modules.networks.unet.UNet", "params": {**TINY, name: value}}
        try:
            with meta_init():
                instantiate_from_config(recipe)
        except Fault:
            refused += 1
    assert len(names) < refused < len(names) * len(ODD)
