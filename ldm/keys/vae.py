"""Key names of a KL autoencoder in diffusers and in CompVis files."""

import re
from collections.abc import Iterable

ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}
ATTENTION_BEFORE_2023 = {"to_q": "query", "to_k": "key", "to_v": "value", "to_out.0": "proj_attn"}
ATTENTION_LAYER = re.compile(
    r"((?:en|de)coder\.mid_block\.attentions\.0)\.(group_norm|to_[qkv]|to_out\.0)\.(weight|bias)"
)
RULES = [
    (re.compile(r"\.down_blocks\.(\d+)\."), r".down.\1."),
    (re.compile(r"\.mid_block\.attentions\.0\."), ".mid.attn_1."),
    (re.compile(r"\.resnets\.(\d+)\."), r".block.\1."),
    (re.compile(r"\.(down|up)samplers\.0\."), r".\1sample."),
    (re.compile(r"\.conv_shortcut\."), ".nin_shortcut."),
    (re.compile(r"\.conv_norm_out\."), ".norm_out."),
]
MIDDLE_RESNET = re.compile(r"\.mid_block\.resnets\.(\d+)\.")
UP_BLOCK = re.compile(r"^decoder\.up_blocks\.(\d+)\.")


def compvis_autoencoder_names(keys: Iterable[str]) -> dict[str, str]:
    """{diffusers' key: CompVis' key} for any number of levels; the keys of the whole network are needed.

    CompVis counts the decoder's levels by resolution, so from the other end.
    """
    keys = list(keys)
    levels = 1 + max((int(match[1]) for key in keys if (match := UP_BLOCK.match(key))), default=-1)
    return {key: _compvis_name(key, levels) for key in keys}


def old_autoencoder_names(keys: Iterable[str]) -> dict[str, str]:
    """{name of the middle attention's tensors in diffusers folders before 2023: the name of today}."""
    matches = [match for key in keys if (match := ATTENTION_LAYER.match(key))]
    return {f"{m[1]}.{ATTENTION_BEFORE_2023[m[2]]}.{m[3]}": m[0] for m in matches if m[2] in ATTENTION_BEFORE_2023}


def is_attention_matrix(key: str) -> bool:
    """Whether diffusers' key is one of the matrices that CompVis keeps as 1x1 convolutions."""
    match = ATTENTION_LAYER.search(key)
    return match is not None and match[2] != "group_norm" and match[3] == "weight"


def _compvis_name(key: str, levels: int) -> str:
    if match := ATTENTION_LAYER.match(key):
        key = f"{match[1]}.{ATTENTION[match[2]]}.{match[3]}"
    key = UP_BLOCK.sub(lambda m: f"decoder.up.{levels - 1 - int(m[1])}.", key)
    key = MIDDLE_RESNET.sub(lambda m: f".mid.block_{int(m[1]) + 1}.", key)
    for pattern, replacement in RULES:
        key = pattern.sub(replacement, key)
    return key
