"""A network's weights in several files of limited size, as diffusers and transformers write and read them."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from ldm.errors import Fault
from ldm.files.state import State
from ldm.files.write import Types, write_safetensors

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?B)?\s*", re.IGNORECASE)


def bytes_of(size: int | str, where: str) -> int:
    """The bytes of a size such as "5GB" (10^9 bytes each, as diffusers counts) or of a number of bytes.

    Raises `Fault` CFG08, of the setting `where`, for anything else.
    """
    match = SIZE.fullmatch(str(size))
    unit = (match[2] or "").upper() if match else ""
    amount = int(float(match[1]) * UNITS[unit]) if match else 0
    if amount < 1:
        raise Fault("CFG08", f"{size} is no size of a file", where=where, fix="5GB, 500MB, or a number of bytes")
    return amount


def write_shards(
    folder: Path, stem: str, state: State, metadata: Mapping[str, str], types: Types, limit: int | None
) -> None:
    """Write `stem.safetensors` into `folder`, or files of at most `limit` bytes of weights and an index of them.

    A tensor that is larger takes a file of its own. The index says which tensor lies in which file.
    """

    from huggingface_hub import split_state_dict_into_shards_factory

    # Sizes instead of tensors: the library only counts, and a tensor may be stored under another type than its own.
    sizes = {name: value.numel() * types.get(name, value.dtype).itemsize for name, value in state.items()}
    plan = split_state_dict_into_shards_factory(
        sizes,
        get_storage_size=int,
        filename_pattern=stem + "{suffix}.safetensors",
        max_shard_size=sum(sizes.values()) + 1 if limit is None else limit,
    )
    for file, names in plan.filename_to_tensors.items():
        write_safetensors(folder / file, {name: state[name] for name in names}, metadata, types)
    if plan.is_sharded:
        index = {"metadata": plan.metadata, "weight_map": plan.tensor_to_filename}
        text = json.dumps(index, indent=2, sort_keys=True) + "\n"
        (folder / f"{stem}.safetensors.index.json").write_text(text, encoding="utf-8")
