"""Where files have the weight of a layer: under a name of its own, or beside others' in one matrix.

Files of Stable Diffusion 3 hold query, key and value as one matrix, so that an adapter of it holds theirs as blocks on
the diagonal of `up`, as kohya-ss/sd-scripts writes them; and the shift of the last normalisations before their scale.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ldm.errors import Fault

ROWS = ("lora_up.weight", "hada_w1_a", "hada_w2_a")
"""Tensors with a row for each output of the layer."""


@dataclass(frozen=True)
class FilePlace:
    """Of one layer.

    key      the name in files
    part     which of `parts` equal ranges of the rows there are the layer's
    swapped  the two halves of its rows lie there in the other order
    """

    key: str
    part: int = 0
    parts: int = 1
    swapped: bool = False


Names = Mapping[str, FilePlace]
"""{layer's name in rules: where files of a layout have it}."""


def placed(layers: Mapping[str, Mapping[str, Tensor]], names: Names) -> dict[str, dict[str, Tensor]]:
    """Adapters by layer as files have them, by key. Raises `Fault` MOD03 for kinds that cannot stand there."""
    by_key: dict[str, dict[int, Mapping[str, Tensor]]] = {}
    for layer, tensors in layers.items():
        if (place := names.get(layer)) is None:
            what = f"files of this layout have no name for {layer}"
            raise Fault(
                "MOD03", what, why="programs would leave it out", fix="to=kohya, or merge=true for whole weights"
            )
        own = _swapped(tensors, layer) if place.swapped else tensors
        by_key.setdefault(place.key, {})[place.part] = own
    counts = {place.key: place.parts for place in names.values()}
    return {
        key: dict(parts[0]) if counts[key] == 1 else _on_diagonal(parts, counts[key], key)
        for key, parts in by_key.items()
    }


def taken(tensors: Mapping[str, Tensor], layer: str, place: FilePlace) -> dict[str, Tensor]:
    """A layer's own part of the tensors that files have at its place. Raises `Fault` MOD03 for what has no parts."""
    if place.parts > 1:
        if not any(name in tensors for name in ROWS) or "dora_scale" in tensors:
            why = f"it is an adapter of {place.parts} layers that files have as one, of a kind that is no sum of theirs"
            raise Fault("MOD03", f"{place.key} cannot be divided among its layers", why=why, fix="a LoRA or a LoHa")
        tensors = {k: v.chunk(place.parts)[place.part] if k in ROWS else v for k, v in tensors.items()}
    return _swapped(tensors, layer) if place.swapped else dict(tensors)


def _on_diagonal(parts: Mapping[int, Mapping[str, Tensor]], count: int, key: str) -> dict[str, Tensor]:
    """One LoRA of `count` layers: their `down` below one another, each `up` in the rows of its layer."""
    if any(tensors.keys() != {"lora_down.weight", "lora_up.weight", "alpha"} for tensors in parts.values()):
        why = f"files have {count} layers as one matrix there, in which only their LoRAs can stand side by side"
        raise Fault("MOD03", f"{key} cannot hold adapters of these kinds", why=why, fix="merge=true for whole weights")
    downs, ups = [], []
    for part, tensors in sorted(parts.items()):
        down, up = tensors["lora_down.weight"].detach(), tensors["lora_up.weight"].detach()
        scaled = up.float() * (float(tensors["alpha"]) / down.shape[0])
        rows = scaled.new_zeros(count * len(up), *up.shape[1:])
        rows[part * len(up) : (part + 1) * len(up)] = scaled
        downs.append(down)
        ups.append(rows)
    down = torch.cat(downs)
    return {"lora_down.weight": down, "lora_up.weight": torch.cat(ups, dim=1), "alpha": torch.tensor(float(len(down)))}


def _swapped(tensors: Mapping[str, Tensor], layer: str) -> dict[str, Tensor]:
    if not any(name in tensors for name in ROWS):
        why = "files have the halves of its outputs in the other order, which Kronecker's product cannot follow"
        raise Fault("MOD03", f"{layer} cannot have an adapter of this kind in files", why=why, fix="a LoRA there")
    return {k: torch.cat(v.chunk(2)[::-1]) if k in ROWS else v for k, v in tensors.items()}
