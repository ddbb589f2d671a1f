"""Models that are not known here, by a name that their tensors have, so that a message can say what a file is."""

import re
from collections.abc import Iterable

STRANGERS = (
    ("Flux", re.compile(r"double_blocks\.\d+\.img_attn\.|single_transformer_blocks\.\d+\.proj_mlp")),
    ("HunyuanVideo", re.compile(r"double_blocks\.\d+\.img_attn_qkv")),
    ("AuraFlow", re.compile(r"double_layers\.\d+\.attn|joint_transformer_blocks\.\d+\.")),
    ("PixArt", re.compile(r"adaln_single\.|t_block\.1\.weight")),
    ("Z-Image or Lumina", re.compile(r"cap_embedder\.|noise_refiner\.")),
    ("Wan", re.compile(r"blocks\.\d+\.cross_attn\.norm_k")),
    ("Stable Cascade", re.compile(r"clip_txt_pooled_mapper|clip_txt_mapper")),
    ("a ControlNet", re.compile(r"(^|\.)(control_model|zero_convs|controlnet_down_blocks|controlnet_blocks)\.")),
    ("a LoRA, which is added to a model", re.compile(r"lora_(up|down|A|B)\.|\.lora\.|hada_w1|lokr_w")),
)


def looks_like(keys: Iterable[str]) -> str:
    """`it looks like Flux`, by the names of tensors; empty where nothing is recognised."""
    keys = list(keys)
    found = (title for title, mark in STRANGERS if any(mark.search(key) for key in keys))
    return next((f"it looks like {title}" for title in found), "")
