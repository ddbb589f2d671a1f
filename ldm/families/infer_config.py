"""What a model is, read off the names and shapes of its tensors: its family, and its networks' settings."""

import re
from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor

from ldm.errors import Fault
from ldm.families.recognise import (
    SD1,
    SD1_INPAINTING,
    SD2,
    SD2_INPAINTING,
    SDXL,
    SDXL_INPAINTING,
    Family,
    unet_family,
)
from ldm.files.state import State
from ldm.keys.parts import COND_STAGE, CONDITIONER, FIRST_STAGE, UNET, below

Kind = Literal["sd1", "sd2", "sdxl"]
TITLES: Mapping[Kind, str] = {
    "sd1": "Stable Diffusion 1.x",
    "sd2": "Stable Diffusion 2.x",
    "sdxl": "Stable Diffusion XL",
}
HEADS_OF_1 = 8  # attention heads at every width; the others have heads of 64 channels
HEAD_WIDTH = 64
COVERED: Mapping[Family, Kind] = {
    SD1: "sd1",
    SD1_INPAINTING: "sd1",
    SD2: "sd2",
    SD2_INPAINTING: "sd2",
    SDXL: "sdxl",
    SDXL_INPAINTING: "sdxl",
}
BASES: Mapping[Kind, Family] = {"sd1": SD1, "sd2": SD2, "sdxl": SDXL}
WIDTHS_OF_1 = [320, 640, 1280, 1280]
SCALE, SCALE_OF_XL = 0.18215, 0.13025  # of latents
BLOCK = re.compile(r"transformer_blocks\.(\d+)\.")


def family_of(unet: State, source: str) -> Kind:
    """The family of a UNet under CompVis' names.

    A public one is known by its widths. For any other it follows from how the network is built: 1.x projects into
    attention with convolutions, 2.x with matrices, and XL is told sizes as well.
    Raises `Fault` MOD03 for a network that is none of these.
    """
    context = _context_width(unet)
    projections = {value.ndim for key, value in unet.items() if key.endswith("proj_in.weight")}
    if "input_blocks.0.0.weight" not in unet or context is None or len(projections) != 1:
        raise Fault(
            "MOD03",
            f"{source} is no Stable Diffusion that is known here",
            why="its UNet has no cross-attention, or names and shapes of another kind of network",
            fix="known are Stable Diffusion 1.x, 2.x and XL base, their inpainting kinds, and autoencoders alone",
        )
    public = unet_family(unet)
    if public and public not in COVERED:
        raise Fault("MOD03", f"{source} is {public.name}, which is not converted", why=f"known by: {public.facts}")
    if public:
        return COVERED[public]
    if "label_emb.0.0.weight" in unet:
        return "sdxl"
    return "sd1" if projections == {4} else "sd2"


def unet_config(unet: State, family: Kind) -> dict[str, Any]:
    """Arguments of `diffusers.UNet2DConditionModel` for a UNet under CompVis' names.

    The number of attention heads leaves no trace in shapes: it is that of the family.
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
        "cross_attention_dim": _context_width(unet),
        "attention_head_dim": _heads(widths, family),
        "use_linear_projection": family != "sd1",
    }
    layers = [depth or 1 for depth in depths[:-1]] + [depths[-1] or middle or 1]
    config["transformer_layers_per_block"] = layers if set(layers) != {1} else 1
    if family == "sdxl":
        told = unet["label_emb.0.0.weight"].shape[1]
        config |= {"addition_embed_type": "text_time", "projection_class_embeddings_input_dim": told}
        config["addition_time_embed_dim"] = 256
    return config


def heads_are_known(unet: State, family: Kind) -> bool:
    """Whether the network has the widths of its family, so that the family's number of heads is a fact."""
    widths = [block["width"] for block in _input_blocks(unet)]
    return widths == (WIDTHS_OF_1 if family != "sdxl" else WIDTHS_OF_1[:3])


def vae_config(first_stage: State, family: Kind | None) -> dict[str, Any]:
    """Arguments of `diffusers.AutoencoderKL` for an autoencoder under CompVis' names."""
    levels = _count(first_stage, r"encoder\.down\.(\d+)\.")
    tops = [first_stage[f"encoder.down.{level}.block.0.conv2.weight"] for level in range(levels)]
    config = {
        "in_channels": first_stage["encoder.conv_in.weight"].shape[1],
        "out_channels": first_stage["decoder.conv_out.weight"].shape[0],
        "latent_channels": first_stage["post_quant_conv.weight"].shape[0],
        "down_block_types": ["DownEncoderBlock2D"] * levels,
        "up_block_types": ["UpDecoderBlock2D"] * levels,
        "block_out_channels": [top.shape[0] for top in tops],
        "layers_per_block": _count(first_stage, r"encoder\.down\.0\.block\.(\d+)\."),
        "norm_num_groups": 32,
        "sample_size": {"sd1": 512, "sd2": 768, "sdxl": 1024}[family or "sd1"],
        "scaling_factor": SCALE_OF_XL if family == "sdxl" else SCALE,
    }
    return config | ({"force_upcast": True} if family == "sdxl" else {"force_upcast": False})


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


def parts_in(state: State) -> dict[str, int]:
    """{part as people call it: its tensors} of what a model under CompVis' names holds."""
    prefixes = {"UNet": (UNET,), "VAE": (FIRST_STAGE,), "text encoder": (COND_STAGE, CONDITIONER)}
    counts = {name: sum(key.startswith(prefix) for key in state) for name, prefix in prefixes.items()}
    return {name: count for name, count in counts.items() if count}


def unet_of(state: State) -> State:
    return below(state, UNET)


def first_stage_of(state: State) -> State:
    return below(state, FIRST_STAGE)


def _context_width(unet: Mapping[str, Tensor]) -> int | None:
    return next((int(value.shape[1]) for key, value in unet.items() if key.endswith("attn2.to_k.weight")), None)


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


def _heads(widths: list[int], family: Kind) -> int | list[int]:
    return HEADS_OF_1 if family == "sd1" else [max(1, width // HEAD_WIDTH) for width in widths]


def _depth(unet: State, place: str) -> int:
    return 1 + max((int(m[1]) for key in unet if key.startswith(place) and (m := BLOCK.search(key))), default=-1)


def _count(keys: Mapping[str, Tensor], pattern: str) -> int:
    found = re.compile(pattern)
    return 1 + max((int(match[1]) for key in keys if (match := found.match(key))), default=-1)
