"""Changes that are products of small matrices of another kind: LoHa element by element, LoKr by Kronecker's product."""

import math

import torch
from torch import Tensor, nn

from ldm.adapters.layer import WHERE, Adapter, draw, new_parameter
from ldm.adapters.low_rank import require_rank
from ldm.errors import Fault


class LoHa(Adapter):
    """W + s (w1_a w1_b) * (w2_a w2_b), s = alpha / rank (FedPara, Hyeon-Woo et al. 2021, arXiv 2108.06098).

    The a are (out, rank), the b (rank, in k k); `w2_a` is 0 at first. The change may have a rank of rank^2.

    rank  of each of the two factors
    """

    def __init__(
        self,
        layer: nn.Module,
        generator: torch.Generator,
        /,
        rank: int = 8,
        alpha: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        require_rank(rank)
        super().__init__(layer, rank if alpha is None else alpha, dropout)
        self.scale = float(self.alpha) / rank
        out, inner = self.shape[0], math.prod(self.shape[1:])
        self.w1_a, self.w1_b = new_parameter(layer, out, rank), new_parameter(layer, rank, inner)
        self.w2_a, self.w2_b = new_parameter(layer, out, rank), new_parameter(layer, rank, inner)
        for weight, deviation in ((self.w1_a, 0.1), (self.w1_b, 1.0), (self.w2_b, 1.0)):  # as LyCORIS begins
            draw(weight, generator, deviation, normal=True)

    def delta(self) -> Tensor:
        product = (self.w1_a.float() @ self.w1_b.float()) * (self.w2_a.float() @ self.w2_b.float())
        return self.scale * product.reshape(self.shape)

    def tensors(self) -> dict[str, Tensor]:
        weights = {f"hada_{name}": weight for name, weight in self.named_parameters()}
        return weights | {"alpha": self.alpha}


class LoKr(Adapter):
    """W + s w1 (x) w2, s = alpha / rank where w2 = w2_a w2_b, else 1 (Yeh et al. 2023, arXiv 2309.14859).

    w1 is (o1, i1) and w2 (o2, i2[, k, k]) with out = o1 o2, in = i1 i2. w2 is whole, and rank and alpha say nothing,
    where the rank is half of its larger side or more: readers take 1 for s there. `w2` or `w2_b` is 0 at first.

    rank    of w2; large ones make it whole
    factor  o1 and i1 are the largest divisors up to this; -1 comes as near to the square root as it can
    """

    def __init__(
        self,
        layer: nn.Module,
        generator: torch.Generator,
        /,
        rank: int = 8,
        alpha: float | None = None,
        dropout: float = 0.0,
        factor: int = -1,
    ) -> None:
        require_rank(rank)
        if factor == 0 or factor < -1:
            raise Fault("CFG03", f"factor is {factor}", where=WHERE, fix="1 or more, or -1")
        super().__init__(layer, rank if alpha is None else alpha, dropout)
        out, inner, *kernel = self.shape
        (o1, o2), (i1, i2) = divided(out, factor), divided(inner, factor)
        self.scale = 1.0
        self.w1 = new_parameter(layer, o1, i1)
        draw(self.w1, generator, 1 / math.sqrt(i1))
        if 2 * rank >= max(o2, i2):
            self.w2 = new_parameter(layer, o2, i2, *kernel)
            return
        self.scale = float(self.alpha) / rank
        self.w2_a, self.w2_b = new_parameter(layer, o2, rank), new_parameter(layer, rank, i2 * math.prod(kernel))
        draw(self.w2_a, generator, 1 / math.sqrt(rank))

    def delta(self) -> Tensor:
        w2 = self.w2.float() if self._is_whole else self.w2_a.float() @ self.w2_b.float()
        return self.scale * torch.kron(self.w1.float(), w2.flatten(1)).reshape(self.shape)

    def tensors(self) -> dict[str, Tensor]:
        weights: dict[str, Tensor] = {f"lokr_{name}": weight for name, weight in self.named_parameters()}
        return weights if self._is_whole else weights | {"alpha": self.alpha}

    @property
    def _is_whole(self) -> bool:
        return "w2" in self._parameters


def divided(side: int, factor: int) -> tuple[int, int]:
    """The two factors of a side, the smaller first: its largest divisor up to `factor` and up to its square root."""
    limit = math.isqrt(side) if factor == -1 else min(factor, math.isqrt(side))
    smaller = max(divisor for divisor in range(1, limit + 1) if side % divisor == 0)
    return smaller, side // smaller
