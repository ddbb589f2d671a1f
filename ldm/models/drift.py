"""How far an autoencoder's latents have moved while it was trained."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ldm.modules.posterior import Posterior
from ldm.transfers import WITHOUT_DOUBLE

PICTURES = 16


class Drift:
    """How far latents have moved from those of the model that training started from, for the first few pictures.

    It is the root mean square of the difference of the posteriors' means, in standard deviations of the start's. A
    UNet that was trained on the old latents still works where this is small. Kept in checkpoints by example.
    """

    def __init__(self) -> None:
        self._start: dict[int, Tensor] = {}
        self._sums: Tensor | None = None

    def state_dict(self) -> dict[str, Tensor]:
        if not self._start:
            return {}
        return {"slots": torch.tensor(list(self._start)), "means": torch.stack(list(self._start.values()))}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        if state:
            self._start = dict(zip(state["slots"].tolist(), state["means"], strict=True))

    @torch.no_grad()
    def remember(self, moments: Callable[[Mapping[str, Any]], Tensor], batches: Iterable[Mapping[str, Any]]) -> None:
        """The latents of the first pictures of validation as `moments` encodes a batch of them now."""
        for batch in batches:
            means = Posterior.of(moments(batch)).mean
            rows = zip(batch["slot"].tolist(), means.cpu(), strict=True)
            self._start |= {slot: mean for slot, mean in rows if slot >= 0}
            if len(self._start) >= PICTURES:
                return

    def restart(self) -> None:
        self._sums = None

    def add(self, batch: Mapping[str, Any], posterior: Posterior) -> None:
        rows = [row for row, slot in enumerate(batch["slot"].tolist()) if slot in self._start]
        if not rows:
            return
        start = torch.stack([self._start[int(batch["slot"][row])] for row in rows]).double()
        moved = posterior.mean[rows].cpu().double() - start
        sums = [moved.square().sum(), start.sum(), start.square().sum(), torch.tensor(float(start.numel()))]
        stacked = torch.stack([value.double() for value in sums])
        self._sums = stacked if self._sums is None else self._sums + stacked

    def metrics(self, reduce: Callable[..., Tensor], device: torch.device) -> dict[str, Tensor]:
        if not self._start:
            return {}
        own = torch.zeros(4, dtype=torch.float64) if self._sums is None else self._sums
        there = own if device.type in WITHOUT_DOUBLE else own.to(device)
        moved, total, squares, count = reduce(there, reduce_op="sum")
        variance = squares / count - (total / count).square()
        return {"latent_drift": (moved / count / variance).sqrt().float()}
