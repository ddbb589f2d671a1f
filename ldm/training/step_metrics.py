"""What the steps of a training measure, kept as tensors on their device until somebody reads it."""

from collections.abc import Mapping

import torch
from torch import Tensor

from ldm.training.window import mean_of


class StepMetrics:
    """Means of one accumulation window, and the latest value of each name.

    Nothing here waits for a device, moves a number from it, or asks Lightning, which handles every number that is
    logged for 300 us: `LogsSteps` hands them over when a log is due.
    """

    def __init__(self) -> None:
        self._micros: list[dict[str, Tensor]] = []
        self._latest: dict[str, Tensor | float] = {}

    def add(self, means: Mapping[str, Tensor]) -> None:
        """Take in what a micro-batch measured: a scalar by name."""
        self._micros.append({name: value.detach() for name, value in means.items()})

    def close_window(self) -> dict[str, Tensor]:
        """The means over the micro-batches since the last call."""
        micros, self._micros = self._micros, []
        return mean_of(micros)

    def keep(self, values: Mapping[str, Tensor | float]) -> None:
        """Hold these as the latest values, each until its next value."""
        self._latest.update(values)

    def latest(self) -> dict[str, Tensor]:
        """The latest value of each name, as scalars in float32."""
        return {name: torch.as_tensor(value, dtype=torch.float32) for name, value in self._latest.items()}

    def read(self) -> dict[str, float]:
        """The same as numbers; waits once for each device that holds any of them."""
        numbers: dict[str, float] = {}
        on_device: dict[torch.device, dict[str, Tensor]] = {}
        for name, value in self._latest.items():
            numbers[name] = 0.0  # its place in the order
            if isinstance(value, Tensor):
                on_device.setdefault(value.device, {})[name] = value.float().reshape(())
            else:
                numbers[name] = value
        for values in on_device.values():
            numbers |= zip(values, torch.stack(list(values.values())).tolist(), strict=True)
        return numbers
