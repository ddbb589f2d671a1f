"""Key names of Stable Diffusion 3's network (MMDiT, Esser et al. 2024, arXiv 2403.03206): diffusers' and single files'.

Files hold query, key and value in one matrix, and the shift of the last normalisations before their scale, where
diffusers has the scale first.
"""

import re
from collections.abc import Iterable

from ldm.errors import Fault
from ldm.files.state import State
from ldm.keys.table import KeyTable

ENDS = {
    "pos_embed.proj": "x_embedder.proj",
    "time_text_embed.timestep_embedder.linear_1": "t_embedder.mlp.0",
    "time_text_embed.timestep_embedder.linear_2": "t_embedder.mlp.2",
    "time_text_embed.text_embedder.linear_1": "y_embedder.mlp.0",
    "time_text_embed.text_embedder.linear_2": "y_embedder.mlp.2",
    "context_embedder": "context_embedder",
    "norm_out.linear": "final_layer.adaLN_modulation.1",
    "proj_out": "final_layer.linear",
}
IN_BLOCK = {
    "norm1.linear": "x_block.adaLN_modulation.1",
    "norm1_context.linear": "context_block.adaLN_modulation.1",
    "attn.to_out.0": "x_block.attn.proj",
    "attn.to_add_out": "context_block.attn.proj",
    "attn2.to_out.0": "x_block.attn2.proj",
    "attn.norm_q": "x_block.attn.ln_q",
    "attn.norm_k": "x_block.attn.ln_k",
    "attn.norm_added_q": "context_block.attn.ln_q",
    "attn.norm_added_k": "context_block.attn.ln_k",
    "attn2.norm_q": "x_block.attn2.ln_q",
    "attn2.norm_k": "x_block.attn2.ln_k",
    "ff.net.0.proj": "x_block.mlp.fc1",
    "ff.net.2": "x_block.mlp.fc2",
    "ff_context.net.0.proj": "context_block.mlp.fc1",
    "ff_context.net.2": "context_block.mlp.fc2",
}
JOINED = {
    "x_block.attn.qkv": ("attn.to_q", "attn.to_k", "attn.to_v"),
    "context_block.attn.qkv": ("attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"),
    "x_block.attn2.qkv": ("attn2.to_q", "attn2.to_k", "attn2.to_v"),
}
POSITIONS, POSITIONS_ON_DISK = "pos_embed.pos_embed", "pos_embed"
"""The table of sines and cosines of where a patch lies; it is no weight and follows from its size."""

LAST_NORM = "norm_out.linear"
_OURS = re.compile(r"transformer_blocks\.(\d+)\.(.+)\.(weight|bias)")
_THEIRS = re.compile(r"joint_blocks\.(\d+)\.(.+)\.(weight|bias)")
_ENDS_BACK = {theirs: ours for ours, theirs in ENDS.items()}
_IN_BLOCK_BACK = {theirs: ours for ours, theirs in IN_BLOCK.items()}
_JOINED_IN = {member: name for name, members in JOINED.items() for member in members}


def mmdit_table(keys: Iterable[str], attribute: str = "") -> KeyTable:
    """The way from diffusers' `keys`, of a whole network with any number of blocks, to the file's names and back."""
    keys = list(keys)
    last = count_blocks(keys) - 1
    names: dict[str, str] = {}
    joins: dict[str, list[str]] = {}
    for key in keys:
        match = _OURS.fullmatch(key)
        if match and match[2] in _JOINED_IN:
            joins.setdefault(f"joint_blocks.{match[1]}.{_JOINED_IN[match[2]]}.{match[3]}", []).append(key)
        elif (name := _file_name(key)) is not None:
            names[key] = name
    ordered = {name: sorted(parts, key=_order) for name, parts in joins.items()}
    swapped = (LAST_NORM, f"transformer_blocks.{last}.norm1_context.linear")
    swaps = {key for key in names if key.rpartition(".")[0] in swapped}
    return KeyTable(names, attribute, joins=ordered, swaps=swaps)


def mmdit_from_library(state: State) -> State:
    """diffusers' tensors under the file's names. Raises `Fault` MOD03 for a query, key or value without the others."""
    table = mmdit_table(state)
    for name, parts in table.joins.items():
        members = JOINED[name.split(".", 2)[2].rpartition(".")[0]]
        if len(parts) < len(members):
            what = f"{parts[0]} comes without the tensors beside it"
            why = f"files hold {', '.join(members)} of a block in one tensor, {name}"
            raise Fault(
                "MOD03", what, why=why, fix="take the whole network; a part of it may have been lost on the way"
            )
    return table.to_disk(state)


def mmdit_to_library(state: State) -> State:
    """The file's tensors, without prefix, under diffusers' names, in which they are views but for what is swapped."""
    return mmdit_table(library_keys(state)).from_disk(state)


def library_keys(keys: Iterable[str]) -> list[str]:
    """diffusers' keys of the tensors that a file of these keys, without prefix, holds; those unknown as they are."""
    return [name for key in keys for name in _library_names(key)]


def count_blocks(keys: Iterable[str]) -> int:
    """The number of blocks of a network under diffusers' or the file's names."""
    matches = (_OURS.match(key) or _THEIRS.match(key) for key in keys)
    return 1 + max((int(match[1]) for match in matches if match), default=-1)


def _file_name(key: str) -> str | None:
    if key == POSITIONS:
        return POSITIONS_ON_DISK
    if match := _OURS.fullmatch(key):
        number, inner, kind = match.groups()
        return f"joint_blocks.{number}.{IN_BLOCK[inner]}.{kind}" if inner in IN_BLOCK else None
    module, _, kind = key.rpartition(".")
    return f"{ENDS[module]}.{kind}" if module in ENDS else None


def _library_names(key: str) -> list[str]:
    if key == POSITIONS_ON_DISK:
        return [POSITIONS]
    if match := _THEIRS.fullmatch(key):
        number, inner, kind = match.groups()
        members = JOINED.get(inner) or ([_IN_BLOCK_BACK[inner]] if inner in _IN_BLOCK_BACK else [])
        return [f"transformer_blocks.{number}.{member}.{kind}" for member in members] or [key]
    module, _, kind = key.rpartition(".")
    return [f"{_ENDS_BACK[module]}.{kind}"] if module in _ENDS_BACK else [key]


def _order(key: str) -> int:
    """Of query, key and value in the tensor that holds them."""
    match = _OURS.fullmatch(key)
    assert match is not None
    return JOINED[_JOINED_IN[match[2]]].index(match[2])
