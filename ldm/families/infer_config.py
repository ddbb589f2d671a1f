"""The settings of networks, read off the names and shapes of their tensors."""

import re
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ldm.files.state import State

HEAD_WIDTH = 64
BLOCK = re.compile(r"transformer_blocks\.(\d+)\.")


def unet_config(unet: State, heads: int | None, linear_projection: bool) -> dict[str, Any]:
    """Arguments of `diffusers.UNet2DConditionModel` for a UNet under CompVis' names.

    heads              attention heads at every width, which leave no trace in shapes; None: as many as there are
                       64 channels
    linear_projection  into attention, by a matrix; otherwise by a 1x1 convolution, in which the same numbers lie
    """
    blocks = _input_blocks(unet)
    widths = [block["width"] for block in blocks]
    depths = [block["depth"] for block in blocks]
    middle = _depth(unet, "middle_block.1.")
    crossed = ["CrossAttn" if depth else "" for depth in depths]
    config: dict[str, Any] = {
        "in_channels": unet["input_blocks.0.0.weight"].shape[1],
        "out_channels": unet["out.2.weight"].shape[0],
        "block_out_channels": widths,
        "layers_per_block": blocks[0]["layers"],
        "down_block_types": [f"{cross}DownBlock2D" for cross in crossed],
        "up_block_types": [f"{cross}UpBlock2D" for cross in reversed(crossed)],
        "cross_attention_dim": context_width(unet),
        "attention_head_dim": heads or [max(1, width // HEAD_WIDTH) for width in widths],
        "use_linear_projection": linear_projection,
    }
    layers = [depth or 1 for depth in depths[:-1]] + [depths[-1] or middle or 1]
    config["transformer_layers_per_block"] = layers if set(layers) != {1} else 1
    if "label_emb.0.0.weight" in unet:
        input_dim = unet["label_emb.0.0.weight"].shape[1]
        config |= {"addition_embed_type": "text_time", "projection_class_embeddings_input_dim": input_dim}
        config["addition_time_embed_dim"] = 256
    return config


def input_block_widths(unet: State) -> list[int]:
    """The channels at each level of a UNet under CompVis' names."""
    return [block["width"] for block in _input_blocks(unet)]


def vae_config(first_stage: State, scale: float, sample_size: int, upcasts: bool) -> dict[str, Any]:
    """Arguments of `diffusers.AutoencoderKL` for an autoencoder under CompVis' names.

    What shapes do not show is given: the scale of latents, the side of the pictures that it was trained on in pixels,
    and whether it overflows in float16.
    """
    levels = _count(first_stage, r"encoder\.down\.(\d+)\.")
    tops = [first_stage[f"encoder.down.{level}.block.0.conv2.weight"] for level in range(levels)]
    bare = not any(key.startswith(("quant_conv.", "post_quant_conv.")) for key in first_stage)
    return {
        "in_channels": first_stage["encoder.conv_in.weight"].shape[1],
        "out_channels": first_stage["decoder.conv_out.weight"].shape[0],
        "latent_channels": first_stage["decoder.conv_in.weight"].shape[1],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "block_out_channels": [top.shape[0] for top in tops],
        "layers_per_block": _count(first_stage, r"encoder\.down\.0\.block\.(\d+)\."),
        "norm_num_groups": 32,
        "sample_size": sample_size,
        "scaling_factor": scale,
        "force_upcast": upcasts,
        **({"use_quant_conv": False, "use_post_quant_conv": False} if bare else {}),
    }


def text_config(state: State, activation: str) -> dict[str, Any]:
    """Arguments of `transformers.CLIPTextConfig` for an encoder under transformers' names without `text_model.`."""
    vocabulary, width = state["embeddings.token_embedding.weight"].shape
    projection = state.get("text_projection.weight")
    return {
        "vocab_size": vocabulary,
        "hidden_size": width,
        "intermediate_size": state["encoder.layers.0.mlp.fc1.weight"].shape[0],
        "num_hidden_layers": _count(state, r"encoder\.layers\.(\d+)\."),
        "num_attention_heads": max(1, width // HEAD_WIDTH),
        "max_position_embeddings": state["embeddings.position_embedding.weight"].shape[0],
        "hidden_act": activation,
        "projection_dim": width if projection is None else projection.shape[0],
        "layer_norm_eps": 1e-5,
        # What the hub's copies say. The library reads this eos as "where the largest token is", which is right.
        **{"bos_token_id": 0, "eos_token_id": 2, "pad_token_id": 1},
    }


def t5_config(state: State) -> dict[str, Any]:
    """Arguments of `transformers.T5Config` for an encoder under transformers' names.

    Its tables show all: that of relative positions has a row a bucket and a column a head.
    """
    vocabulary, width = state["shared.weight"].shape
    place = "encoder.block.0.layer."
    buckets, heads = state[f"{place}0.SelfAttention.relative_attention_bias.weight"].shape
    gated = f"{place}1.DenseReluDense.wi_0.weight"
    return {
        "vocab_size": vocabulary,
        "d_model": width,
        "d_kv": state[f"{place}0.SelfAttention.q.weight"].shape[0] // heads,
        "d_ff": state[f"{place}1.DenseReluDense.wo.weight"].shape[1],
        "num_layers": _count(state, r"encoder\.block\.(\d+)\."),
        "num_heads": heads,
        "relative_attention_num_buckets": buckets,
        "feed_forward_proj": "gated-gelu" if gated in state else "relu",
    }


def context_width(unet: Mapping[str, Tensor]) -> int | None:
    """The width of what a UNet attends to, under CompVis' or diffusers' names; None where it attends to nothing."""
    return next((int(value.shape[-1]) for key, value in unet.items() if key.endswith("attn2.to_k.weight")), None)


def _input_blocks(unet: State) -> list[dict[str, int]]:
    """Width, layers and depth of attention of each level on the way down; a downsampling layer ends a level."""
    blocks = [{"width": 0, "layers": 0, "depth": 0}]
    for index in range(1, _count(unet, r"input_blocks\.(\d+)\.")):
        place = f"input_blocks.{index}."
        if f"{place}0.op.weight" in unet:
            blocks.append({"width": 0, "layers": 0, "depth": 0})
            continue
        block = blocks[-1]
        block["width"] = unet[f"{place}0.out_layers.3.weight"].shape[0]
        block["layers"] += 1
        block["depth"] = _depth(unet, f"{place}1.")
    return blocks


def _depth(unet: State, place: str) -> int:
    return 1 + max((int(m[1]) for key in unet if key.startswith(place) and (m := BLOCK.search(key))), default=-1)


def _count(keys: Mapping[str, Tensor], pattern: str) -> int:
    numbered = re.compile(pattern)
    return 1 + max((int(match[1]) for key in keys if (match := numbered.match(key))), default=-1)
