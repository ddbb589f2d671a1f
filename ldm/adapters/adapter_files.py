"""Adapters into files of other programs and out of them: tensors by layer, under any writer's names."""

from collections.abc import Iterable, Mapping
from typing import Literal

import torch
from torch import Tensor

from ldm.adapters.arithmetic import require_known, with_alpha
from ldm.adapters.file_places import Names, placed, taken
from ldm.errors import Fault
from ldm.files.state import State

Layers = Mapping[str, Mapping[str, Tensor]]
"""{layer's name in rules: {name in kohya's files after the layer's: tensor}}."""
Layout = Literal["kohya", "diffusers"]

OTHER_ENDS = {"lora_A.weight": "lora_down.weight", "lora_B.weight": "lora_up.weight"}
OTHER_ENDS |= {"lora.down.weight": "lora_down.weight", "lora.up.weight": "lora_up.weight"}
ENDS = (
    *("lora_down.weight", "lora_up.weight", "lora_mid.weight", "alpha", "dora_scale"),
    *(f"hada_{name}" for name in ("w1_a", "w1_b", "w2_a", "w2_b", "t1", "t2")),
    *(f"lokr_{name}" for name in ("w1", "w1_a", "w1_b", "w2", "w2_a", "w2_b", "t2")),
    *OTHER_ENDS,
)
AROUND = ("base_model.model.", "module.")


def to_file(layers: Layers, names: Names, layout: Layout, dtype: torch.dtype | None) -> State:
    """The tensors of a file. An alpha stays in fp32, which half would round.

    names  of files of this layout
    Raises `Fault` MOD03 for kinds that the readers of a layout do not take for what they are.
    """
    state: State = {}
    for key, tensors in placed(layers, names).items():
        own = tensors if layout == "kohya" else _as_diffusers(key, tensors)
        for name, tensor in own.items():
            kept = dtype is None or name == "alpha"
            state[f"{key}.{name}"] = tensor.detach() if kept else tensor.detach().to(dtype)
    return state


def from_file(state: State, names: Mapping[str, Names], source: str) -> dict[str, dict[str, Tensor]]:
    """The adapters of a file by layer. One without an alpha gets its rank as alpha: the scale 1 that all readers take.

    names  {key of a layer in files: the layer, or those whose weights files have as one}
    Raises `Fault` MOD03 for a tensor whose layer the model does not have, of a kind that is not known, or a second one
    of the same layer.
    """
    by_key: dict[str, dict[str, Tensor]] = {}
    strange: list[str] = []
    for full, tensor in state.items():
        key, end = _parted(full)
        if key in names:
            by_key.setdefault(key, {})[OTHER_ENDS.get(end, end)] = tensor
        else:
            strange.append(full)
    if strange or not by_key:
        raise _strange(strange, len(state), source)
    layers: dict[str, dict[str, Tensor]] = {}
    for key, tensors in by_key.items():
        require_known(tensors, f"{key} in {source}")
        for layer, place in names[key].items():
            if layer in layers:
                what = f"{source} holds two adapters of {layer}"
                raise Fault("MOD03", what, why=f"one of them is {key}", fix="leave one of them out")
            layers[layer] = with_alpha(taken(tensors, layer, place))
    return layers


def is_adapter_file(keys: Iterable[str]) -> bool:
    """Whether the names of a file's tensors are those of an adapter."""
    keys = list(keys)
    return bool(keys) and all(_parted(key)[1] for key in keys)


def _as_diffusers(layer: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """That layout has no alpha: the scale goes into `lora_B`, which is exact."""
    if set(tensors) != {"lora_down.weight", "lora_up.weight", "alpha"}:
        what = f"diffusers reads LoRA alone; {layer} holds {', '.join(sorted(tensors))}"
        fix = "to=kohya, or merge=true for whole weights, or a LoRA of the difference: extract=BASE rank=error=0.1"
        raise Fault("MOD03", what, why="it would leave them out", fix=fix)
    down, up = tensors["lora_down.weight"], tensors["lora_up.weight"]
    return {"lora_A.weight": down, "lora_B.weight": up.float() * (float(tensors["alpha"]) / down.shape[0])}


def _parted(full: str) -> tuple[str, str]:
    """A tensor's name as (layer's key, what follows it); the latter is empty where it is no adapter's."""
    for around in AROUND:
        full = full.removeprefix(around)
    full = full.replace(".default.", ".")
    end = next((end for end in ENDS if full.endswith(f".{end}")), "")
    return (full.removesuffix(f".{end}"), end) if end else (full, "")


def _strange(strange: list[str], count: int, source: str) -> Fault:
    if not strange:
        return Fault("MOD03", f"{source} holds no adapter")
    why = f"{len(strange)} of its {count} tensors belong to no layer of this model, first {min(strange)}"
    fix = "an adapter that was trained on the same family of models"
    return Fault("MOD03", f"{source} does not fit this model", why=why, fix=fix)
