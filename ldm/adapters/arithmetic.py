"""What the tensors of an adapter's file make of a layer's weight, in fp32, as the programs compute it that read it."""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ldm.adapters.low_rank import column_lengths
from ldm.errors import Fault

KNOWN = (
    {"lora_down.weight", "lora_up.weight"},
    {"hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"},
    {"lokr_w1", "lokr_w2"},
    {"lokr_w1", "lokr_w2_a", "lokr_w2_b"},
)
BESIDE = {"alpha", "dora_scale"}


def require_known(tensors: Mapping[str, Tensor], place: str) -> None:
    """Raise `Fault` MOD03 for tensors of a layer that are of no kind known here, or of one that programs differ in."""
    if set(tensors) - BESIDE not in KNOWN:
        why = f"it holds {', '.join(sorted(tensors))}; known are LoRA, LoCon, LoHa, LoKr and DoRA"
        raise Fault("MOD03", f"{place} is an adapter of a kind that is not known here", why=why)
    magnitude = tensors.get("dora_scale")
    if magnitude is not None and magnitude.shape[0] != 1:
        why = f"its dora_scale is {list(magnitude.shape)}: lengths of outputs, which programs read in different ways"
        raise Fault("MOD03", f"{place} is a DoRA of the other axis", why=why, fix="one trained with lengths of inputs")


def change(tensors: Mapping[str, Tensor], shape: torch.Size) -> Tensor:
    """What is added to a weight, in its shape; without an alpha the scale is 1."""
    product, rank = _product({name: tensor.float() for name, tensor in tensors.items()})
    scale = float(tensors["alpha"]) / rank if rank is not None and "alpha" in tensors else 1.0
    return scale * product.reshape(shape)


def patched(weight: Tensor, tensors: Mapping[str, Tensor], strength: float = 1.0) -> Tensor:
    """The weight, in its shape, with an adapter at a strength; a DoRA is interpolated, since lengths are not added."""
    base = weight.float()
    changed = base + change(tensors, weight.shape)
    if (magnitude := tensors.get("dora_scale")) is not None:
        changed = changed * (magnitude.float() / column_lengths(changed))
    return base + strength * (changed - base)


def with_alpha(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of a layer with the alpha that readers take where there is none: the rank, for a scale of 1."""
    name = next((name for name in ("lora_down.weight", "hada_w1_b", "lokr_w2_b") if name in tensors), None)
    given = {"alpha": torch.tensor(float(tensors[name].shape[0]))} if name else {}
    return given | dict(tensors)


def shape_of(tensors: Mapping[str, Tensor], kernel: Sequence[int]) -> torch.Size:
    """The shape of the weight, (out, in) or (out, in, *kernel), of the layer that the tensors are an adapter of."""
    named = {name: tensor.flatten(1).shape for name, tensor in tensors.items() if name not in BESIDE}
    if "lora_up.weight" in named:
        out, columns = named["lora_up.weight"][0], named["lora_down.weight"][1]
    elif "hada_w1_a" in named:
        out, columns = named["hada_w1_a"][0], named["hada_w1_b"][1]
    else:
        tall, wide = (named["lokr_w2" if "lokr_w2" in named else f"lokr_w2_{side}"] for side in "ab")
        out, columns = named["lokr_w1"][0] * tall[0], named["lokr_w1"][1] * wide[1]
    return torch.Size([out, columns // math.prod(kernel), *kernel])


def _product(tensors: Mapping[str, Tensor]) -> tuple[Tensor, int | None]:
    """(the change but for its scale, the rank by which alpha is divided; None where alpha says nothing)."""
    if "lora_up.weight" in tensors:
        down = tensors["lora_down.weight"]
        return tensors["lora_up.weight"].flatten(1) @ down.flatten(1), down.shape[0]
    if "hada_w1_a" in tensors:
        one, other = tensors["hada_w1_a"] @ tensors["hada_w1_b"], tensors["hada_w2_a"] @ tensors["hada_w2_b"]
        return one * other, tensors["hada_w1_b"].shape[0]
    if "lokr_w2" in tensors:
        return torch.kron(tensors["lokr_w1"], tensors["lokr_w2"].flatten(1)), None
    low = tensors["lokr_w2_a"] @ tensors["lokr_w2_b"]
    return torch.kron(tensors["lokr_w1"], low), tensors["lokr_w2_b"].shape[0]
