"""Whole models of Stable Diffusion 3 and 3.5 with next to none of their width, in the libraries' own networks."""

from functools import cache
from typing import Any

import torch
from diffusers import AutoencoderKL, SD3Transformer2DModel
from support.sd3 import PIECES
from support.small import shake
from transformers import CLIPTextConfig, CLIPTextModelWithProjection, T5Config, T5EncoderModel

from ldm.convert.model import Model
from ldm.families.facts import Facts
from ldm.families.sd3 import SD3
from ldm.files.state import State
from ldm.keys.layout import autoencoder_to_compvis
from ldm.keys.mmdit import mmdit_from_library
from ldm.keys.split_checkpoint import FIRST_STAGE, UNET

KINDS: dict[str, dict[str, Any]] = {
    "medium": {},
    "3.5 medium": {"qk_norm": "rms_norm", "dual_attention_layers": [0, 1]},
    "3.5 large": {"qk_norm": "rms_norm"},
}
MMDIT: dict[str, Any] = {
    "sample_size": 8,
    "in_channels": 16,
    "out_channels": 16,
    "num_layers": 3,
    "attention_head_dim": 64,
    "num_attention_heads": 3,
    "caption_projection_dim": 192,
    "joint_attention_dim": 160,
    "pooled_projection_dim": 16 + 64,
    "pos_embed_max_size": 8,
}
VAE16: dict[str, Any] = {
    "block_out_channels": [32, 32],
    "layers_per_block": 1,
    "latent_channels": 16,
    "down_block_types": ["DownEncoderBlock2D"] * 2,
    "up_block_types": ["UpDecoderBlock2D"] * 2,
    "use_quant_conv": False,
    "use_post_quant_conv": False,
    "scaling_factor": 1.5305,
    "shift_factor": 0.0609,
}
VOCABULARY = 49408


def networks(kind: str) -> dict[str, Any]:
    """The libraries' networks by their folder in a pipeline, the same each time."""
    torch.manual_seed(0)
    t5 = {"vocab_size": PIECES, "d_model": 160, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 3}
    found = {
        "transformer": SD3Transformer2DModel(**MMDIT, **KINDS[kind]),
        "vae": AutoencoderKL(**VAE16),
        "text_encoder": CLIPTextModelWithProjection(clip(16, "quick_gelu")),
        "text_encoder_2": CLIPTextModelWithProjection(clip(64, "gelu")),
        "text_encoder_3": T5EncoderModel(T5Config(**t5, feed_forward_proj="gated-gelu")),
    }
    for network in found.values():
        shake(network.eval())
    return found


def clip(projection: int, activation: str) -> CLIPTextConfig:
    sizes = {"hidden_size": 64, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 1}
    return CLIPTextConfig(vocab_size=VOCABULARY, projection_dim=projection, hidden_act=activation, **sizes)


@cache
def _file(kind: str) -> State:
    found = {name: network.state_dict() for name, network in networks(kind).items()}
    state = {UNET + key: value for key, value in mmdit_from_library(found["transformer"]).items()}
    state |= {FIRST_STAGE + key: value for key, value in autoencoder_to_compvis(found["vae"]).items()}
    for encoder in SD3.encoders:
        state |= encoder.to_file(found[encoder.folder])
    return {key: value.detach().clone().contiguous() for key, value in state.items()}


def file_of(kind: str, *without: str) -> State:
    """All tensors of a single file but those whose names begin with one of `without`; nobody may write into them."""
    return {key: value for key, value in _file(kind).items() if not key.startswith(without or ("-",))}


def model(kind: str, *without: str) -> Model:
    facts = Facts("flow_prediction", {"use_flow_sigmas": True, "flow_shift": 3.0})
    return Model(file_of(kind, *without), SD3, "made for a test", facts)
