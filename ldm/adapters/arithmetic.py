"""What the tensors of an adapter's file make of a layer's weight, in fp32, as the programs compute it that read it."""

from collections.abc import Mapping

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


def _product(found: Mapping[str, Tensor]) -> tuple[Tensor, int | None]:
    """(the change but for its scale, the rank by which alpha is divided; None where alpha says nothing)."""
    if "lora_up.weight" in found:
        down = found["lora_down.weight"]
        return found["lora_up.weight"].flatten(1) @ down.flatten(1), down.shape[0]
    if "hada_w1_a" in found:
        one, other = found["hada_w1_a"] @ found["hada_w1_b"], found["hada_w2_a"] @ found["hada_w2_b"]
        return one * other, found["hada_w1_b"].shape[0]
    if "lokr_w2" in found:
        return torch.kron(found["lokr_w1"], found["lokr_w2"].flatten(1)), None
    low = found["lokr_w2_a"] @ found["lokr_w2_b"]
    return torch.kron(found["lokr_w1"], low), found["lokr_w2_b"].shape[0]
