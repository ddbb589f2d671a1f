"""Key names of CLIP's text encoders in the three spellings that files have: transformers', CompVis' and open_clip's."""

import re
from collections.abc import Iterable

import torch

from ldm.files.state import State

BELOW = "text_model."

OPEN_CLIP_ENDS = {
    "embeddings.token_embedding.weight": "token_embedding.weight",
    "embeddings.position_embedding.weight": "positional_embedding",
    "final_layer_norm.weight": "ln_final.weight",
    "final_layer_norm.bias": "ln_final.bias",
}
OPEN_CLIP_LAYER = {
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "mlp.fc1": "mlp.c_fc",
    "mlp.fc2": "mlp.c_proj",
    "self_attn.out_proj": "attn.out_proj",
}
QUERY_KEY_VALUE = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
PROJECTION, OPEN_CLIP_PROJECTION = "text_projection.weight", "text_projection"
T5_SHARED, T5_EMBEDDED = "shared.weight", "encoder.embed_tokens.weight"
LOGIT_SCALE = "logit_scale"
LOG_100 = 4.6052  # what open_clip's training converges to

_OURS = re.compile(r"encoder\.layers\.(\d+)\.(.+)\.(weight|bias)")
_THEIRS = re.compile(r"transformer\.resblocks\.(\d+)\.(.+?)[._](weight|bias)")
_ENDS_BACK = {theirs: ours for ours, theirs in OPEN_CLIP_ENDS.items()}
_LAYER_BACK = {theirs: ours for ours, theirs in OPEN_CLIP_LAYER.items()}


def folder_clip_names(keys: Iterable[str]) -> dict[str, str]:
    """{key in folders that are meant for every version of transformers: transformers' key of today}."""
    return {key if key.startswith(BELOW) else BELOW + key: key for key in keys}


def compvis_clip_names(keys: Iterable[str]) -> dict[str, str]:
    """{transformers' key of today: CompVis' key}."""
    return {key: f"transformer.{name}" for name, key in folder_clip_names(keys).items()}


def open_clip_from_transformers(state: State) -> State:
    """transformers' tensors, below `text_model` or not, as open_clip has them: query, key and value in one matrix.

    Raises KeyError for a tensor that is no part of a text encoder and for a layer without one of the three.
    """
    state = {key.removeprefix(BELOW): value for key, value in state.items() if not key.endswith(".position_ids")}
    renamed: State = {}
    for key, value in state.items():
        if key == PROJECTION:  # open_clip multiplies from the other side
            renamed[OPEN_CLIP_PROJECTION] = value.T.contiguous()
        elif key in OPEN_CLIP_ENDS:
            renamed[OPEN_CLIP_ENDS[key]] = value
        else:
            name = _open_clip_layer(key)
            if name.endswith(("in_proj_weight", "in_proj_bias")):
                value = torch.cat([state[sibling] for sibling in _siblings(key)])
            renamed[name] = value
    return renamed


def transformers_from_open_clip(state: State, shortened: bool = False) -> tuple[State, State]:
    """open_clip's tensors as transformers has them, without `text_model.`, and what transformers has no place for.

    shortened  the encoder ends before open_clip's last layer and has no projection, as Stable Diffusion 2.x uses it
    The rest keeps open_clip's names: `logit_scale`, or for a shortened encoder the 14 tensors that it leaves out.
    """
    last = f"transformer.resblocks.{count_open_clip_layers(state) - 1}."
    renamed: State = {}
    rest: State = {}
    for key, value in state.items():
        match = _THEIRS.fullmatch(key)
        if key in _ENDS_BACK:
            renamed[_ENDS_BACK[key]] = value
        elif key == OPEN_CLIP_PROJECTION and not shortened:
            renamed[PROJECTION] = value.T.contiguous()
        elif match is None or (shortened and key.startswith(last)):
            rest[key] = value
        elif match[2] == "attn.in_proj":
            names = [f"encoder.layers.{match[1]}.{name}.{match[3]}" for name in QUERY_KEY_VALUE]
            renamed |= dict(zip(names, (part.clone() for part in value.chunk(3)), strict=True))
        else:
            renamed[f"encoder.layers.{match[1]}.{_LAYER_BACK[match[2]]}.{match[3]}"] = value
    return renamed, rest


def count_open_clip_layers(keys: Iterable[str]) -> int:
    return 1 + max((int(match[1]) for key in keys if (match := _THEIRS.match(key))), default=-1)


def stand_ins(state: State, width: int) -> State:
    """The 14 tensors of Stable Diffusion 2.x's encoder that nothing reads, for weights that come without them.

    state  a shortened encoder, under open_clip's names
    Its last layer once more, a projection that changes nothing, and CLIP's usual scale of logits.
    """
    layers = count_open_clip_layers(state)
    copied = f"transformer.resblocks.{layers - 1}."
    again = {key: value.clone() for key, value in state.items() if key.startswith(copied)}
    renamed = {key.replace(copied, f"transformer.resblocks.{layers}."): value for key, value in again.items()}
    return renamed | {OPEN_CLIP_PROJECTION: torch.eye(width), LOGIT_SCALE: torch.tensor(LOG_100)}


def _open_clip_layer(key: str) -> str:
    match = _OURS.fullmatch(key)
    if match is None:
        raise KeyError(key)
    number, name, kind = match.groups()
    if name in QUERY_KEY_VALUE:
        return f"transformer.resblocks.{number}.attn.in_proj_{kind}"
    return f"transformer.resblocks.{number}.{OPEN_CLIP_LAYER[name]}.{kind}"


def _siblings(key: str) -> list[str]:
    """The keys of query, key and value for any one of them."""
    stem, _, kind = key.rpartition(".")
    layer = stem.rpartition(".self_attn.")[0]
    return [f"{layer}.{name}.{kind}" for name in QUERY_KEY_VALUE]
