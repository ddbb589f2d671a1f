"""What other programs make of an adapter's tensors: the arithmetic of ComfyUI's loaders for one layer."""

from collections.abc import Mapping

import torch
from torch import Tensor


def read_by_others(weight: Tensor, tensors: Mapping[str, Tensor], strength: float = 1.0) -> Tensor:
    """The layer's weight as ComfyUI patches it with the tensors after a layer's key, fp32."""
    base = weight.float()
    alpha = float(tensors["alpha"]) if "alpha" in tensors else None
    delta, rank = _delta({name: tensor.float() for name, tensor in tensors.items()})
    delta = delta.reshape(base.shape) * (alpha / rank if alpha is not None and rank is not None else 1.0)
    if (magnitude := tensors.get("dora_scale")) is None:
        return base + strength * delta
    changed = base + delta
    on_output = magnitude.shape[0] == changed.shape[0] and magnitude.shape[0] != 1
    flat = base.flatten(1) if on_output else changed.transpose(0, 1).flatten(1)
    shape = (-1, *(1 for _ in base.shape[1:])) if on_output else (1, -1, *(1 for _ in base.shape[2:]))
    norm = flat.norm(dim=1).reshape(shape) + torch.finfo(torch.float32).eps
    return base + strength * (changed * (magnitude.float() / norm) - base)


def _delta(found: Mapping[str, Tensor]) -> tuple[Tensor, int | None]:
    if "lora_up.weight" in found:
        down, up = found["lora_down.weight"], found["lora_up.weight"]
        return up.flatten(1) @ down.flatten(1), down.shape[0]
    if "hada_w1_a" in found:
        first = found["hada_w1_a"] @ found["hada_w1_b"]
        return first * (found["hada_w2_a"] @ found["hada_w2_b"]), found["hada_w1_b"].shape[0]
    w1, w2, rank = found["lokr_w1"], found.get("lokr_w2"), None
    if w2 is None:
        w2, rank = found["lokr_w2_a"] @ found["lokr_w2_b"], found["lokr_w2_b"].shape[0]
    if w2.ndim == 4:
        w1 = w1[:, :, None, None]
    return torch.kron(w1, w2), rank
