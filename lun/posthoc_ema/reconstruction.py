"""The weights of an average of any width, made from the snapshots one tensor at a time."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from ldm.files.ema_snapshot import Snapshot


class Reconstruction(Mapping[str, Tensor]):
    """base + (1 - base_weight) * sum of coefficient * difference, made when asked for; the last one is kept.

    It holds whatever the base file holds: weights that were not trained are as they were. Peak memory is two tensors
    in fp32. Raises `Fault` MOD02 for a snapshot that is not as it was written.
    """

    def __init__(
        self,
        base: Mapping[str, Tensor],
        snapshots: Sequence[Snapshot],
        coefficients: Sequence[float],
        base_weight: float = 0.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._base = base
        self._terms = [(one, float(c) * (1 - base_weight)) for one, c in zip(snapshots, coefficients, strict=True) if c]
        for snapshot, _ in self._terms:
            snapshot.require_whole()
        self._averaged = set(snapshots[0])
        self._dtype = dtype
        self._last: tuple[str, Tensor] = ("", torch.empty(0))

    def __getitem__(self, name: str) -> Tensor:
        if self._last[0] != name:
            self._last = (name, self._make(name))
        return self._last[1]

    def __iter__(self) -> Iterator[str]:
        return iter(self._base)

    def __len__(self) -> int:
        return len(self._base)

    def _make(self, name: str) -> Tensor:
        base = self._base[name]
        if name in self._averaged:
            total = base.double()  # large coefficients of both signs cancel
            for snapshot, factor in self._terms:
                total.add_(snapshot[name], alpha=factor)
            base = total
        return base.to(self._dtype) if base.is_floating_point() else base
