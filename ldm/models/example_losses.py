"""Losses of single examples with their noise levels, kept on their device until somebody reads them all at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ldm.diffusion.path import Path
from ldm.models.diffusion.picture_size import pixels_of_sides
from ldm.models.metrics import Measured

Column = Callable[[Mapping[str, Any]], Sequence[float]]
"""What a number of one's own says of a batch: a number for each of its b examples, known on the host."""

Rows = dict[str, NDArray[np.float64]]
"""Columns of m examples by name, each (m,): `loss` (unweighted), `log_snr`, `example` (its number in the data set, -1
where that is not known), `height` and `width` in pixels, and those of one's own."""

OWN = ("loss", "log_snr", "example", "height", "width")


@dataclass(frozen=True)
class _Batch:
    """t and losses (b,) as they lie on the device; host (b, columns) float64, and which of its rows count."""

    t: Tensor
    losses: Tensor
    host: NDArray[np.float64]
    counted: NDArray[np.bool_]


class ExampleLosses:
    """Losses of the examples of batches by `phase`: `train`, `val` for raw weights and `val_ema` for averaged ones.

    Nothing is kept before somebody has asked by `watch`. A batch costs no operation on the device, and no read.
    """

    def __init__(self) -> None:
        self._columns: dict[str, Column] | None = None
        self._held: dict[str, list[_Batch]] = {}

    def watch(self, columns: Mapping[str, Column] | None = None) -> None:
        """Keep losses from now on, with these columns beside `OWN`."""
        self._columns = (self._columns or {}) | dict(columns or {})

    def add(self, measured: Measured) -> None:
        """Take in a batch whose losses are known."""
        if self._columns is None:
            return
        batch, x0 = measured.batch, measured.x0
        size = pixels_of_sides(measured.model, (x0.shape[-2], x0.shape[-1]))
        values = [_numbers(batch.get("example"), len(x0)), *(np.full(len(x0), side, np.float64) for side in size)]
        values += [np.asarray(column(batch), np.float64) for column in self._columns.values()]
        counted = _numbers(batch.get("slot"), len(x0), 0.0) >= 0
        losses = measured.losses
        held = _Batch(losses.t.detach(), losses.simple.detach(), np.stack(values, axis=1), counted)
        self._held.setdefault(_phase(measured.model), []).append(held)

    def take(self, phase: str, path: Path) -> Rows:
        """The rows of a phase since they were last taken, of this rank, after one read of the device."""
        held = self._held.pop(phase, [])
        names = [*OWN, *(self._columns or ())]
        if not held:
            return {name: np.zeros(0) for name in names}
        discrete = not held[0].t.is_floating_point()
        t, losses = torch.stack(
            [torch.cat([one.t.float() for one in held]), torch.cat([one.losses.float() for one in held])]
        ).cpu()
        levels = path.log_snr(t.long() if discrete else t).double().numpy()
        counted = np.concatenate([one.counted for one in held])
        host = np.concatenate([one.host for one in held]).T
        columns = [losses.double().numpy(), levels, *host]
        return {name: column[counted] for name, column in zip(names, columns, strict=True)}

    def drop(self, phase: str) -> None:
        """Forget the rows of a phase."""
        self._held.pop(phase, None)


def _phase(model: Any) -> str:
    if model.training:
        return "train"
    return "val_ema" if model.model_ema is not None and model.model_ema.swapped else "val"


def _numbers(column: Any, count: int, absent: float = -1.0) -> NDArray[np.float64]:
    """A column of a batch that lies on the host."""
    if column is None:
        return np.full(count, absent)
    return np.asarray(column.tolist() if isinstance(column, Tensor) else column, np.float64)
