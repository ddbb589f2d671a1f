"""The flat fp32 copy of a model's weights that an EMA averages into."""

from collections.abc import Mapping

import torch
from torch import Tensor


class Shadow:
    """One flat fp32 tensor on `device` with a view of it per name, in the order of `tensors`.

    Always fp32: a 16-bit average loses every update below half of its last bit, at a decay of 0.9999 all of them.
    """

    def __init__(self, tensors: Mapping[str, Tensor], device: str) -> None:
        sizes = [tensor.numel() for tensor in tensors.values()]
        # Under inference mode tensors could be made that no later step is allowed to write.
        with torch.inference_mode(False):
            self.flat = torch.empty(sum(sizes), dtype=torch.float32, device=device)
            parts = self.flat.split(sizes)
        self.views = {name: part.view(tensors[name].shape) for name, part in zip(tensors, parts, strict=True)}
        self.take(tensors)

    @torch.no_grad()
    def take(self, tensors: Mapping[str, Tensor]) -> None:
        """Become a copy of `tensors`."""
        for name, view in self.views.items():
            view.copy_(tensors[name])

    @torch.no_grad()
    def give(self, tensors: Mapping[str, Tensor]) -> None:
        """Write the average into `tensors`, rounded to their own dtype."""
        for name, view in self.views.items():
            tensors[name].copy_(view)


@torch.no_grad()
def parked(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Bit-exact copies on `device`, each in the dtype of its tensor."""
    with torch.inference_mode(False):
        return {name: tensor.detach().to(device, copy=True) for name, tensor in tensors.items()}


@torch.no_grad()
def put_back(kept: Mapping[str, Tensor], tensors: Mapping[str, Tensor]) -> None:
    """Write what was `parked` into `tensors` again."""
    for name, tensor in tensors.items():
        tensor.copy_(kept[name])
