"""LoRAs that stand for other changes of weights, with how much of each they leave out: measured, never clamped."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ldm.adapters.arithmetic import change
from ldm.adapters.decomposition import Factors, RankRule, decompose, decompose_product
from ldm.errors import Fault

LORA = frozenset({"lora_down.weight", "lora_up.weight"})
STRENGTH_IN = ("lora_up.weight", "hada_w1_a", "lokr_w1")
"""The tensor of each kind that the change is proportional to."""

Weighted = Sequence[tuple[Mapping[str, Tensor], float]]
"""Adapters of one layer, each as its file's tensors and a strength."""


@dataclass(frozen=True)
class Approximation:
    """A LoRA of one layer as kohya's files hold it.

    error  |change - LoRA| / |change|, Frobenius' norms, of the numbers as they are stored
    size   |change|
    """

    tensors: dict[str, Tensor]
    error: float
    size: float

    @property
    def rank(self) -> int:
        return int(self.tensors["lora_down.weight"].shape[0])


def approximate(
    matrix: Tensor, shape: torch.Size, rule: RankRule, dtype: torch.dtype | None = None, seed: int = 0
) -> Approximation:
    """The LoRA nearest to a change (out, n) of a weight of `shape`, with the rank that `rule` asks for."""
    matrix = matrix.float()
    tensors = _stored(decompose(matrix, rule.few, seed), shape, rule, dtype)
    left = matrix - tensors["lora_up.weight"].float().flatten(1) @ tensors["lora_down.weight"].float().flatten(1)
    return _measured(tensors, float(left.norm()), float(matrix.norm()))


def approximate_product(
    up: Tensor, down: Tensor, shape: torch.Size, rule: RankRule, dtype: torch.dtype | None = None
) -> Approximation:
    """The same for the change up @ down, (out, k) and (k, n), which is never formed."""
    tensors = _stored(decompose_product(up, down), shape, rule, dtype)
    own_up, own_down = (tensors[f"lora_{name}.weight"].float().flatten(1) for name in ("up", "down"))
    left = _size_of_product(torch.cat([up, -own_up], dim=1), torch.cat([down, own_down]))
    return _measured(tensors, left, _size_of_product(up, down))


def approximate_adapters(
    parts: Weighted, shape: torch.Size, rule: RankRule, dtype: torch.dtype | None, place: str
) -> Approximation:
    """The LoRA nearest to the sum of adapters of a layer whose weight has this shape.

    Raises `Fault` MOD03 for a DoRA, which is no sum and says nothing without the weight below it.
    """
    _refuse_decomposed(parts, place)
    if all(_is_lora(tensors) for tensors, _ in parts):
        return approximate_product(*_side_by_side(parts), shape, rule, dtype)
    total = torch.stack([strength * change(tensors, shape) for tensors, strength in parts]).sum(0)
    return approximate(total.flatten(1), shape, rule, dtype)


def join(parts: Weighted, place: str) -> dict[str, Tensor]:
    """The tensors of one adapter that is exactly the sum: LoRAs side by side, another kind at its strength alone.

    Raises `Fault` MOD03 for a sum that no single adapter is.
    """
    if len(parts) == 1 and parts[0][1] == 1.0:
        return dict(parts[0][0])
    _refuse_decomposed(parts, place)
    if all(_is_lora(tensors) for tensors, _ in parts):
        up, down = _side_by_side(parts)
        first = parts[0][0]
        rank, ones = down.shape[0], first["lora_up.weight"].shape[2:]
        return {
            "lora_down.weight": down.reshape(rank, *first["lora_down.weight"].shape[1:]).contiguous(),
            "lora_up.weight": up.reshape(*up.shape, *ones).contiguous(),
            "alpha": torch.tensor(float(rank)),
        }
    if len(parts) > 1:
        what = f"{place}: adapters of other kinds than LoRA cannot be joined as they are"
        raise Fault("MOD03", what, fix="rank=error=0.1, or another rank, joins them as a LoRA")
    tensors, strength = parts[0]
    return {name: strength * value if name in STRENGTH_IN else value for name, value in tensors.items()}


def total_error(approximations: Iterable[Approximation]) -> float:
    """|what is left out| / |change| over all layers."""
    pairs = [(one.error * one.size, one.size) for one in approximations]
    whole = math.hypot(*(size for _, size in pairs))
    return math.hypot(*(left for left, _ in pairs)) / whole if whole else 0.0


def _stored(factors: Factors, shape: torch.Size, rule: RankRule, dtype: torch.dtype | None) -> dict[str, Tensor]:
    tensors = factors.cut(rule.of(factors.values)).tensors(shape)
    return {name: value if name == "alpha" or dtype is None else value.to(dtype) for name, value in tensors.items()}


def _measured(tensors: dict[str, Tensor], left: float, size: float) -> Approximation:
    return Approximation(tensors, left / size if size else 0.0, size)


def _size_of_product(up: Tensor, down: Tensor) -> float:
    """|up @ down|, (out, k) and (k, n), by what is left of both without their orthogonal parts."""
    left, right = torch.linalg.qr(up.float(), mode="r")[1], torch.linalg.qr(down.float().T, mode="r")[1]
    return float((left @ right.T).norm())


def _side_by_side(parts: Weighted) -> tuple[Tensor, Tensor]:
    """up (out, sum of ranks) and down (sum of ranks, n) whose product is the sum of LoRAs at their strengths."""
    ups, downs = [], []
    for tensors, strength in parts:
        down = tensors["lora_down.weight"].float().flatten(1)
        scale = float(tensors["alpha"]) / down.shape[0] if "alpha" in tensors else 1.0
        ups.append(strength * scale * tensors["lora_up.weight"].float().flatten(1))
        downs.append(down)
    return torch.cat(ups, dim=1), torch.cat(downs)


def _is_lora(tensors: Mapping[str, Tensor]) -> bool:
    return tensors.keys() >= LORA


def _refuse_decomposed(parts: Weighted, place: str) -> None:
    if any("dora_scale" in tensors for tensors, _ in parts):
        why = "it scales the weight that it is added to, so that it is no sum"
        fix = "add it to its base and extract the difference: adapter=FILE extract=BASE"
        raise Fault("MOD03", f"{place} is a DoRA, which says nothing without its base", why=why, fix=fix)
