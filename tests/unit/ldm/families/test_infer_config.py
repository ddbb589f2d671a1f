"""Families and settings, read off names and shapes."""

import hashlib

import pytest
import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from support.small import FAMILIES, UNETS, VAE, Kind, single_file

from ldm.errors import Fault
from ldm.families.registry import family_of
from ldm.families.sd1 import SD1
from ldm.keys.layout import autoencoder_to_compvis, unet_to_compvis
from ldm.keys.split_checkpoint import first_stage_of, unet_of

FULL: dict[Kind, dict[str, object]] = {
    "sd1": {"block_out_channels": [320, 640, 1280, 1280], "cross_attention_dim": 768, "attention_head_dim": 8},
    "sd2": UNETS["sd2"]
    | {
        "block_out_channels": [320, 640, 1280, 1280],
        "cross_attention_dim": 1024,
        "attention_head_dim": [5, 10, 20, 20],
    },
    "sdxl": UNETS["sdxl"]
    | {
        "block_out_channels": [320, 640, 1280],
        "cross_attention_dim": 2048,
        "attention_head_dim": [5, 10, 20],
        "projection_class_embeddings_input_dim": 2816,
    },
}
# Number of keys and the hash of names and shapes, as CompVis', Stability's and sgm's own modules have them.
TABLES = {
    ("sd1", 4): (686, "31a978d7173d3cc6"),
    ("sd1", 9): (686, "a949138d81fff894"),
    ("sd2", 4): (686, "17ae407477a5f3ab"),
    ("sd2", 9): (686, "8b065e6412878365"),
    ("sdxl", 4): (1680, "6eaa83ce0c2e5988"),
    ("sdxl", 9): (1680, "9b60eb4c95aadfb3"),
}


def table(state: dict[str, torch.Tensor], prefix: str) -> tuple[int, str]:
    lines = sorted(f"{prefix}{key} {tuple(value.shape)}" for key, value in state.items())
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


@pytest.mark.parametrize(("family", "channels"), TABLES)
def test_a_full_size_unet_has_exactly_the_published_names_and_shapes_and_is_recognised(
    family: Kind, channels: int
) -> None:
    with torch.device("meta"):
        network = UNet2DConditionModel(in_channels=channels, **FULL[family])
    state = unet_to_compvis(network.state_dict())
    assert table(state, "model.diffusion_model.") == TABLES[family, channels]
    assert family_of(state, "x") is FAMILIES[family]
    config = FAMILIES[family].network.settings(state)
    assert {key: plain(network.config[key]) for key in config} == {key: plain(config[key]) for key in config}


def plain(value: object) -> object:
    return list(value) if isinstance(value, tuple | list) else value


def test_a_full_size_autoencoder_has_exactly_the_published_names_and_shapes() -> None:
    with torch.device("meta"):
        network = AutoencoderKL(**VAE | {"block_out_channels": [128, 256, 512, 512]})
    state = autoencoder_to_compvis(network.state_dict())
    assert table(state, "first_stage_model.") == (248, "9190c3ec1cf5cd6d")
    config = SD1.latent.config(state)
    assert {key: plain(network.config[key]) for key in config if key not in ("sample_size", "force_upcast")} == {
        key: plain(value) for key, value in config.items() if key not in ("sample_size", "force_upcast")
    }


@pytest.mark.parametrize("family", ["sd1", "sd2", "sdxl"])
def test_the_settings_of_small_networks_follow_from_their_shapes(family: Kind) -> None:
    state = single_file(family)
    config = FAMILIES[family].network.settings(unet_of(state))
    assert {key: config[key] for key in UNETS[family] if key in config} == UNETS[family]
    assert FAMILIES[family].latent.config(first_stage_of(state))["block_out_channels"] == VAE["block_out_channels"]


@pytest.mark.parametrize("network", [{}, {"input_blocks.0.0.weight": torch.ones(1, 3, 1, 1)}])
def test_a_network_that_is_none_of_the_families_is_refused_and_not_taken_for_1(
    network: dict[str, torch.Tensor],
) -> None:
    with pytest.raises(Fault, match=r"a\.ckpt is no Stable Diffusion that is known here") as caught:
        family_of(network, "a.ckpt")
    assert caught.value.id == "MOD03"


@pytest.mark.parametrize(
    ("width", "channels", "context", "name"), [(384, 4, 1280, "refiner"), (320, 8, 768, "Pix2Pix")]
)
def test_a_public_model_of_another_kind_is_named(width: int, channels: int, context: int, name: str) -> None:
    state = {
        "input_blocks.0.0.weight": torch.ones(width, channels, 1, 1),
        "input_blocks.4.1.proj_in.weight": torch.ones(1, 1),
        "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight": torch.ones(1, context),
    }
    labels = {"label_emb.0.0.weight": torch.ones(1, 1)} if context == 1280 else {}
    with pytest.raises(Fault, match=f"{name}.*, which is not converted"):
        family_of(state | labels, "x")
