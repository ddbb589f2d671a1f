"""Names of Stable Diffusion 3's network in single files, against diffusers' own converter."""

import hashlib
from typing import Any

import pytest
import torch
from diffusers import SD3Transformer2DModel
from diffusers.loaders.single_file_utils import convert_sd3_transformer_checkpoint_to_diffusers

from ldm.errors import Fault
from ldm.files.state import State
from ldm.keys.mmdit import count_blocks, library_keys, mmdit_from_library, mmdit_table, mmdit_to_library

MEDIUM: dict[str, Any] = {"num_layers": 24, "num_attention_heads": 24, "pos_embed_max_size": 192}
MEDIUM_35 = {**MEDIUM, "pos_embed_max_size": 384, "qk_norm": "rms_norm", "dual_attention_layers": tuple(range(13))}
LARGE_35 = {**MEDIUM, "num_layers": 38, "num_attention_heads": 38, "qk_norm": "rms_norm"}
SHAPES = {
    "medium": (MEDIUM, 491, "6482b96cc7eaf4f3"),
    "3.5 medium": (MEDIUM_35, 665, "dc37c3ee5b5bf995"),
    "3.5 large": (LARGE_35, 923, "91b96569ca430703"),
}
TINY = {"num_layers": 3, "num_attention_heads": 2, "attention_head_dim": 8, "joint_attention_dim": 12}
TINY |= {"pooled_projection_dim": 10, "pos_embed_max_size": 6, "in_channels": 4, "out_channels": 4, "sample_size": 8}


def on_meta(config: dict[str, Any]) -> State:
    with torch.device("meta"):
        width = config["num_attention_heads"] * config.get("attention_head_dim", 64)
        network = SD3Transformer2DModel(caption_projection_dim=width, **{"sample_size": 128, **config})
    return dict(network.state_dict())


def tiny(**changes: Any) -> State:
    """Random numbers for every tensor of a small network, of 3 blocks."""
    generator = torch.Generator().manual_seed(3)
    return {key: torch.randn(value.shape, generator=generator) for key, value in on_meta({**TINY, **changes}).items()}


@pytest.mark.parametrize("name", SHAPES)
def test_names_and_shapes_of_the_published_models_are_exact_and_come_back(name: str) -> None:
    config, count, digest = SHAPES[name]
    library = {"joint_attention_dim": 4096, "pooled_projection_dim": 2048, "in_channels": 16, "out_channels": 16}
    state = on_meta(config | library)
    disk = mmdit_from_library(state)
    lines = sorted(f"model.diffusion_model.{key} {tuple(value.shape)}" for key, value in disk.items())
    assert len(lines) == count
    assert hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16] == digest
    back = mmdit_to_library(disk)
    assert {key: value.shape for key, value in back.items()} == {key: value.shape for key, value in state.items()}
    assert count_blocks(disk) == config["num_layers"]


@pytest.mark.parametrize(
    "changes", [{}, {"qk_norm": "rms_norm", "dual_attention_layers": (0, 1)}, {"qk_norm": "rms_norm"}]
)
def test_diffusers_own_converter_reads_the_same_numbers_from_our_names(changes: dict[str, Any]) -> None:
    state = tiny(**changes)
    disk = mmdit_from_library(state)
    theirs = convert_sd3_transformer_checkpoint_to_diffusers(
        {f"model.diffusion_model.{key}": value for key, value in disk.items()}
    )
    ours = mmdit_to_library(disk)
    assert theirs.keys() == ours.keys() == state.keys()
    assert all(torch.equal(theirs[key], value) and torch.equal(ours[key], value) for key, value in state.items())


def test_a_module_reads_both_spellings_and_writes_the_files() -> None:
    state = tiny()
    table = mmdit_table(state, "network")
    own = {f"network.{key}": value for key, value in state.items()}
    disk = mmdit_from_library(state)
    for given in (disk, state, own):
        found = table.from_disk(given)
        assert found.keys() == own.keys() and all(torch.equal(found[key], own[key]) for key in own)
    written = table.to_disk(own)
    assert written.keys() == disk.keys() and all(torch.equal(written[key], disk[key]) for key in disk)


def test_a_query_without_its_key_is_refused_by_name() -> None:
    state = {key: value for key, value in tiny().items() if "blocks.1.attn.to_k.weight" not in key}
    with pytest.raises(Fault, match=r"transformer_blocks.1.attn.to_q.weight comes without"):
        mmdit_from_library(state)


def test_what_no_network_of_this_kind_has_keeps_its_name() -> None:
    assert library_keys(["joint_blocks.0.x_block.unheard.of.weight", "scale"]) == [
        "joint_blocks.0.x_block.unheard.of.weight",
        "scale",
    ]
