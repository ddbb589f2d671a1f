"""Numbers on their way from a device to the host, which does not wait for them until it reads them."""

import torch
from torch import Tensor


class LateNumbers:
    """Numbers (n,), copied when the device has computed them, beside what it computes next.

    On a GPU they go into page-locked memory, since a copy to any other keeps the host waiting.
    """

    def __init__(self, numbers: Tensor) -> None:
        on_gpu = numbers.device.type == "cuda"
        self._host = torch.empty(numbers.shape, dtype=numbers.dtype, pin_memory=on_gpu)
        self._host.copy_(numbers, non_blocking=True)
        self._arrived = torch.cuda.Event() if on_gpu else None
        if self._arrived is not None:
            self._arrived.record(torch.cuda.current_stream(numbers.device))

    def read(self) -> list[float]:
        """The numbers, as soon as the device has come to where they were copied; later work is not waited for."""
        if self._arrived is not None:
            self._arrived.synchronize()
        numbers: list[float] = self._host.tolist()
        return numbers
