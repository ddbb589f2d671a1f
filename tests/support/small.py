"""Stable Diffusion of each family with all of its tensors and next to none of its width, with random weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from diffusers import AutoencoderKL, UNet2DConditionModel
from torch import Tensor, nn
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

from ldm.convert.model import Model
from ldm.families.facts import Facts
from ldm.families.record import Family
from ldm.families.registry import SHIPPED
from ldm.files.state import State
from ldm.keys.layout import autoencoder_to_compvis, unet_to_compvis
from ldm.keys.split_checkpoint import FIRST_STAGE, UNET

VOCABULARY = 49408

Kind = Literal["sd1", "sd2", "sdxl"]
FAMILIES: Mapping[str, Family] = {family.name: family for family in SHIPPED}

UNETS: Mapping[Kind, dict[str, Any]] = {
    "sd1": {"block_out_channels": [32, 64, 96, 96], "cross_attention_dim": 64, "attention_head_dim": 8},
    "sd2": {
        "block_out_channels": [64, 128, 192, 192],
        "cross_attention_dim": 64,
        "attention_head_dim": [1, 2, 3, 3],
        "use_linear_projection": True,
    },
    "sdxl": {
        "block_out_channels": [32, 64, 128],
        "cross_attention_dim": 64 + 128,
        "attention_head_dim": [1, 1, 2],
        "use_linear_projection": True,
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        "transformer_layers_per_block": [1, 2, 10],
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 128 + 6 * 256,
    },
}
VAE: dict[str, Any] = {
    "block_out_channels": [32, 64, 96, 96],
    "layers_per_block": 2,
    "latent_channels": 4,
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
}
TEXTS: Mapping[Kind, list[tuple[Any, int, int, str]]] = {
    "sd1": [(CLIPTextModel, 12, 64, "quick_gelu")],
    "sd2": [(CLIPTextModel, 23, 64, "gelu")],
    # Of different widths, since that is how diffusers tells XL's two encoders apart.
    "sdxl": [(CLIPTextModel, 12, 64, "quick_gelu"), (CLIPTextModelWithProjection, 32, 128, "gelu")],
}


@dataclass(frozen=True)
class Networks:
    """The libraries' own networks of one family."""

    unet: Any
    vae: Any
    texts: list[Any]


def networks(family: Kind, channels: int = 4) -> Networks:
    """With random weights, different from tensor to tensor, the same each time."""
    torch.manual_seed(0)
    unet = UNet2DConditionModel(sample_size=8, in_channels=channels, **UNETS[family])
    texts = [kind(text_config(*shape)) for kind, *shape in TEXTS[family]]
    vae = AutoencoderKL(**VAE, scaling_factor=FAMILIES[family].latent.scale)
    for network in (unet, vae, *texts):
        shake(network)
    return Networks(unet.eval(), vae.eval(), [text.eval() for text in texts])


def text_config(layers: int, width: int, activation: str) -> CLIPTextConfig:
    return CLIPTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=width,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        projection_dim=width,
        hidden_act=activation,
        bos_token_id=0,
        eos_token_id=2,
    )


def shake(network: nn.Module) -> None:
    """Random numbers in the place of zeros and ones, which would hide a mistake."""
    with torch.no_grad():
        for value in network.parameters():
            if value.ndim < 2:
                value.add_(0.1 * torch.randn_like(value))


@cache
def _single_file(family: Kind, channels: int) -> State:
    return file_of(networks(family, channels), family)


def single_file(family: Kind, channels: int = 4) -> State:
    """All tensors of a complete single file, under CompVis' names; they are shared, so nobody may write into them."""
    return dict(_single_file(family, channels))


def file_of(found: Networks, family: Kind) -> State:
    state: dict[str, Tensor] = {UNET + k: v for k, v in unet_to_compvis(found.unet.state_dict()).items()}
    state |= {FIRST_STAGE + k: v for k, v in autoencoder_to_compvis(found.vae.state_dict()).items()}
    for encoder, text in zip(FAMILIES[family].encoders, found.texts, strict=True):
        state |= encoder.to_file(text.state_dict())
    state = {key: value.detach().clone().contiguous() for key, value in state.items()}
    return Model(state, FAMILIES[family], "made for a test").completed().state


def model(family: Kind, **facts: Any) -> Model:
    return Model(single_file(family), FAMILIES[family], "made for a test", Facts(**{"prediction": "epsilon", **facts}))


def same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> bool:
    """Whether two states have the same names, types and bits."""
    return a.keys() == b.keys() and all(a[key].dtype == b[key].dtype and torch.equal(a[key], b[key]) for key in a)


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
