"""Changes of low rank: LoRA for matrices and convolutions, PiSSA, which begins with the weight's principal directions,
and DoRA, which also trains the length of columns."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ldm.adapters.decomposition import decompose
from ldm.adapters.layer import WHERE, Adapter, draw, new_parameter
from ldm.errors import Fault


class LoRA(Adapter):
    """W + s up down, s = alpha / rank (Hu et al. 2021, arXiv 2106.09685); of convolutions as LyCORIS' LoCon.

    `down` is (rank, in) or (rank, in, k, k), `up` (out, rank) or (out, rank, 1, 1), which is 0 at first.

    rank             of the change: its file and its memory grow with it
    rank_stabilized  s = alpha / sqrt(rank) (rsLoRA, arXiv 2312.03732); files hold the alpha by which readers get this s
    """

    def __init__(
        self,
        layer: nn.Module,
        generator: torch.Generator,
        /,
        rank: int = 16,
        alpha: float | None = None,
        dropout: float = 0.0,
        rank_stabilized: bool = False,
    ) -> None:
        require_rank(rank)
        alpha = rank if alpha is None else alpha
        super().__init__(layer, alpha * math.sqrt(rank) if rank_stabilized else alpha, dropout)
        self.scale = float(self.alpha) / rank
        out, inner, *kernel = self.shape
        self.down = new_parameter(layer, rank, inner, *kernel)
        self.up = new_parameter(layer, out, rank, *(1 for _ in kernel))
        draw(self.down, generator, 1 / math.sqrt(math.prod(self.shape[1:])))  # Kaiming's, with a = sqrt 5

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self._through(self.dropout(x), self.down, self.up)

    def delta(self) -> Tensor:
        return self._change(self.down, self.up)

    def tensors(self) -> dict[str, Tensor]:
        return {"lora_down.weight": self.down, "lora_up.weight": self.up, "alpha": self.alpha}

    def _through(self, x: Tensor, down: Tensor, up: Tensor) -> Tensor:
        lowered = self.operation(x, down)
        return F.linear(lowered, up) if up.ndim == 2 else F.conv2d(lowered, up)

    def _change(self, down: Tensor, up: Tensor) -> Tensor:
        product = up.float().flatten(1) @ down.float().flatten(1)
        return self.scale * product.reshape(self.shape)


class PiSSA(LoRA):
    """W + s (up down - up_0 down_0), begun where s up_0 down_0 is the part of W that its largest singular values make.

    So what trains are W's principal directions (Meng et al. 2024, arXiv 2404.02948), over a base that stays as it is,
    since the part at the beginning is subtracted. `up_0` and `down_0` do not train, and lie in checkpoints. Files hold
    a LoRA of twice the rank, with both, which readers add to the original base. A convolution counts as (out, in k k).

    rank  of what trains; at most the shorter side of the weight
    """

    start_down: Tensor
    start_up: Tensor

    def __init__(
        self,
        layer: nn.Module,
        generator: torch.Generator,
        /,
        rank: int = 16,
        alpha: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(layer, generator, rank, alpha, dropout)
        if rank > (most := min(self.shape[0], math.prod(self.shape[1:]))):
            raise Fault("CFG03", f"an adapter's rank is {rank}", where=WHERE, fix=f"{most}, all that this layer has")
        if not self.down.is_meta:
            matrix = layer.weight.detach().float().flatten(1)  # type: ignore[operator]
            largest = decompose(matrix.cpu(), rank, generator.initial_seed()).cut(rank)
            root = (largest.values / self.scale).sqrt()
            self.down.data.copy_((root[:, None] * largest.down).reshape(self.down.shape))
            self.up.data.copy_((largest.up * root).reshape(self.up.shape))
        self.register_buffer("start_down", self.down.detach().clone())
        self.register_buffer("start_up", self.up.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        x = self.dropout(x)
        return self.scale * (self._through(x, self.down, self.up) - self._through(x, self.start_down, self.start_up))

    def delta(self) -> Tensor:
        return super().delta() - self._change(self.start_down, self.start_up)

    def tensors(self) -> dict[str, Tensor]:
        down, up = torch.cat([self.down, self.start_down]), torch.cat([self.up, -self.start_up], dim=1)
        return {"lora_down.weight": down, "lora_up.weight": up, "alpha": 2 * self.alpha}


class DoRA(LoRA):
    """m V / |V| with V = W + s up down and |V| of each input's column, taken as constant (arXiv 2402.09353).

    m is (1, in) or (1, in, 1, 1): the axis by which ComfyUI, InvokeAI and A1111 read it. Scaling a column is scaling
    the input that it belongs to, so that no weight is formed but for its length.

    rank  of the change within V
    """

    def __init__(
        self,
        layer: nn.Module,
        generator: torch.Generator,
        /,
        rank: int = 16,
        alpha: float | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(layer, generator, rank, alpha, dropout)
        self.magnitude = new_parameter(layer, 1, self.shape[1], *(1 for _ in self.shape[2:]))
        if not self.magnitude.is_meta:
            self.magnitude.data.copy_(column_lengths(layer.weight))  # type: ignore[arg-type]

    def scaled(self, x: Tensor, weight: Tensor) -> Tensor:
        """The layer's input, in its shape, each feature as much longer as the weight's column is to be."""
        ratio = self._ratio(weight)
        return (x * (ratio.flatten() if ratio.ndim == 2 else ratio)).to(x.dtype)

    def merged(self, weight: Tensor) -> Tensor:
        return (weight.float() + self.delta()) * self._ratio(weight)

    def tensors(self) -> dict[str, Tensor]:
        return super().tensors() | {"dora_scale": self.magnitude}

    def _ratio(self, weight: Tensor) -> Tensor:
        with torch.no_grad():
            lengths = column_lengths(weight.float() + self.delta())
        return self.magnitude / lengths


def column_lengths(weight: Tensor) -> Tensor:
    """(1, in[, 1, 1]): the length of what each input is multiplied by, with the epsilon that readers add."""
    columns = weight.detach().float().transpose(0, 1).flatten(1)
    lengths = columns.norm(dim=1) + torch.finfo(torch.float32).eps
    return lengths.reshape(1, -1, *(1 for _ in weight.shape[2:]))


def require_rank(rank: int) -> None:
    """Raise `Fault` CFG03 for what is no rank."""
    if rank < 1:
        raise Fault("CFG03", f"an adapter's rank is {rank}", where=WHERE, fix="1 or more; 16 is usual")
