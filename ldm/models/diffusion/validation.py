"""The validation loss: exact means over all examples and ranks, for raw and averaged weights."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.objective import Losses


class ValidationLoss:
    """Sums up losses under a suffix ("" for raw weights, "_ema" for averaged ones).

    Encoding pictures costs about as much as the network itself, so what was encoded for the raw weights is kept, on the
    CPU, for the pass with averaged weights.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self._sums: dict[str, Tensor] = {}
        self._names: list[str] = []
        self._kept: list[tuple[Tensor, dict[str, Any], BatchDraws]] = []

    def add(
        self,
        suffix: str,
        losses: Losses,
        metrics: Mapping[str, Tensor] | None = None,
        counted: Tensor | None = None,
    ) -> None:
        """Losses and metrics (b,) of a batch; `counted` (b,) says of which examples, by default of all."""
        named = {"loss_simple": losses.simple, "loss": losses.weighted, **(metrics or {})}
        rows = torch.stack([torch.ones_like(losses.simple), *named.values()])
        if counted is not None:
            rows = torch.where(counted.to(rows.device), rows, 0.0)
        self._names = list(named)
        self._sums[suffix] = self._sums.get(suffix, torch.zeros(len(rows), device=rows.device)) + rows.sum(dim=1)

    def keep(self, x0: Tensor, batch: Mapping[str, Any], draws: BatchDraws) -> None:
        """Keep a batch's x_0 (b, c, h, w), conditions and draws for the pass with averaged weights."""
        conditions = {name: value for name, value in batch.items() if name not in ("image", "moments")}
        self._kept.append((x0.cpu(), conditions, draws))

    def kept(self) -> Iterator[tuple[Tensor, dict[str, Any], BatchDraws]]:
        while self._kept:
            yield self._kept.pop(0)

    def metrics(self, reduce: Callable[..., Tensor]) -> dict[str, Tensor]:
        """`val/loss_simple`, `val/loss` and metrics, with each suffix; `reduce(tensor, reduce_op="sum")` adds up over
        ranks."""
        metrics: dict[str, Tensor] = {}
        for suffix, sums in self._sums.items():
            count, *others = reduce(sums, reduce_op="sum")
            named = zip(self._names, others, strict=True)
            metrics |= {f"val/{name}{suffix}": total / count for name, total in named}
        return metrics
