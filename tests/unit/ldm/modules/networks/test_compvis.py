"""CompVis' description of a UNet."""

import hashlib
from typing import Any

import pytest
import torch

from ldm.errors import Fault
from ldm.keys.split_checkpoint import UNET
from ldm.modules.networks.compvis import UNetModel
from ldm.modules.networks.unet import UNet

SD1: dict[str, Any] = {
    "image_size": 32,
    "in_channels": 4,
    "out_channels": 4,
    "model_channels": 320,
    "attention_resolutions": [4, 2, 1],
    "num_res_blocks": 2,
    "channel_mult": [1, 2, 4, 4],
    "num_heads": 8,
    "use_spatial_transformer": True,
    "transformer_depth": 1,
    "context_dim": 768,
    "use_checkpoint": True,
    "legacy": False,
    "from_scratch": True,
}
SD2 = SD1 | {"num_heads": -1, "num_head_channels": 64, "context_dim": 1024, "use_linear_in_transformer": True}


def build(config: dict[str, Any]) -> UNet:
    with torch.device("meta"):
        return UNetModel(**config)


@pytest.mark.parametrize(("config", "digest"), [(SD1, "31a978d7173d3cc6"), (SD2, "17ae407477a5f3ab")], ids=["1", "2"])
def test_the_published_config_gives_the_published_keys(config: dict[str, Any], digest: str) -> None:
    network = build(config)
    disk = network.to_disk(network.state_dict())
    table = "\n".join(sorted(f"{UNET}{key} {tuple(value.shape)}" for key, value in disk.items()))
    assert hashlib.sha256(table.encode()).hexdigest()[:16] == digest


def test_heads_are_counted_level_by_level() -> None:
    assert build(SD1).network.config.attention_head_dim == [8, 8, 8, 8]
    assert build(SD2).network.config.attention_head_dim == [5, 10, 20, 20]


def test_attention_sits_at_the_factors_that_are_named() -> None:
    config = build(SD1 | {"attention_resolutions": [2]}).network.config
    assert config.down_block_types == ["DownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D", "DownBlock2D"]
    assert config.up_block_types == ["UpBlock2D", "UpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"]


def test_scale_and_shift_of_the_norm_double_the_time_projection() -> None:
    plain, scaled = (build(SD1 | {"use_scale_shift_norm": on}) for on in (False, True))
    key = "network.down_blocks.0.resnets.0.time_emb_proj.weight"
    assert scaled.state_dict()[key].shape[0] == 2 * plain.state_dict()[key].shape[0]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("channel_mult", [2, 4]),
        ("use_spatial_transformer", False),
        ("context_dim", None),
        ("conv_resample", False),
        ("dims", 3),
        ("num_classes", 10),
        ("resblock_updown", True),
        ("n_embed", 64),
        ("num_heads", 7),
        ("num_head_channels", 48),
    ],
)
def test_what_cannot_be_built_is_named(key: str, value: object) -> None:
    with pytest.raises(Fault) as caught:
        build(SD1 | {key: value})
    assert caught.value.id == "CFG03"
    assert key in caught.value.what
