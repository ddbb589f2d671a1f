"""The flat fp32 copy of a model's weights that an EMA averages into."""

from collections.abc import Mapping

import torch
from torch import Tensor

# Elements converted at a time: 16 MB of fp32, long enough to hide the overhead of a call, short enough to stay cached.
CHUNK = 1 << 22


class Shadow:
    """One flat fp32 tensor on `device` with a view of it per name, in the order of `tensors`.

    Always fp32: a 16-bit average loses every update below half of its last bit, at a decay of 0.9999 all of them.
    """

    def __init__(self, tensors: Mapping[str, Tensor], device: str) -> None:
        sizes = [tensor.numel() for tensor in tensors.values()]
        # Under inference mode tensors could be made that no later step is allowed to write.
        with torch.inference_mode(False):
            self.flat = torch.empty(sum(sizes), dtype=torch.float32, device=device)
            pieces = self.flat.split(sizes)
        self.views = {name: piece.view(tensors[name].shape) for name, piece in zip(tensors, pieces, strict=True)}
        self._scratch = self.flat.new_empty(0)
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
    def lerp(self, tensors: Mapping[str, Tensor], weight: float) -> None:
        """Move towards `tensors` by `weight` in [0, 1], in place, since temporaries would take ten times as long."""
        for name, view in self.views.items():
            source = tensors[name]
            if source.dtype == view.dtype and source.device == view.device:
                view.lerp_(source, weight)
            else:  # flattening copies a tensor that is not contiguous: at most one at a time
                self._lerp_in_chunks(view.view(-1), source.reshape(-1), weight)

    def _lerp_in_chunks(self, view: Tensor, source: Tensor, weight: float) -> None:
        if self._scratch.numel() < min(CHUNK, source.numel()):
            with torch.inference_mode(False):
                self._scratch = torch.empty(min(CHUNK, self.longest), dtype=view.dtype, device=view.device)
        for kept, new in zip(view.split(CHUNK), source.split(CHUNK), strict=True):
            kept.lerp_(self._scratch[: new.numel()].copy_(new), weight)

    @property
    def longest(self) -> int:
        """Elements of the largest tensor."""
        return max(view.numel() for view in self.views.values())


@torch.no_grad()
def all_finite(tensors: Mapping[str, Tensor]) -> bool:
    """Whether no tensor holds NaN or infinity; reads each once and makes no temporary."""
    return all(_is_finite(tensor) for tensor in tensors.values() if tensor.numel())


def _is_finite(tensor: Tensor) -> bool:
    # NaN and infinity always reach the sum, at two thirds of the price of the extremes, which settle a mere overflow.
    return bool(tensor.sum().isfinite()) or all(bool(extreme.isfinite()) for extreme in torch.aminmax(tensor))


@torch.no_grad()
def parked(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Bit-exact copies on `device`, each in the dtype of its tensor."""
    with torch.inference_mode(False):
        return {name: tensor.detach().to(device, copy=True) for name, tensor in tensors.items()}
