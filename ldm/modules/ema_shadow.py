"""The flat fp32 copy of a model's weights that an EMA averages into."""

import math
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

# Elements read at a time: 4 MB of fp32, long enough to hide the overhead of a call, short enough to be still in the
# cache when what was checked or converted is averaged.
CHUNK = 1 << 20


class Shadow:
    """One flat fp32 tensor on `device` with a view of it per name, in the order of `tensors`.

    Always fp32: a 16-bit average loses every update below half of its last bit, at a decay of 0.9999 all of them.
    `pieces` are the same memory in parts of at most `CHUNK` elements, none of which crosses two tensors.
    """

    def __init__(self, tensors: Mapping[str, Tensor], device: str) -> None:
        sizes = [tensor.numel() for tensor in tensors.values()]
        # Under inference mode tensors could be made that no later step is allowed to write.
        with torch.inference_mode(False):
            self.flat = torch.empty(sum(sizes), dtype=torch.float32, device=device)
            parts = self.flat.split(sizes)
        self.views = {name: part.view(tensors[name].shape) for name, part in zip(tensors, parts, strict=True)}
        self.pieces = [piece for part in parts for piece in part.split(CHUNK)]
        self.reader = Reader(self.flat.device)
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


class Reader:
    """Reads tensors piece by piece, in the order and size of a shadow's pieces, as fp32 on the shadow's device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._scratch = torch.empty(0)

    def pieces(self, tensors: Mapping[str, Tensor]) -> Iterator[Tensor]:
        """Each piece is valid until the next one is asked for."""
        for tensor in tensors.values():
            flat = tensor.detach().reshape(-1)  # copies a tensor that is not contiguous: at most one at a time
            as_it_is = flat.dtype == torch.float32 and flat.device == self._device
            for piece in flat.split(CHUNK):
                yield piece if as_it_is else self._converted(piece)

    def _converted(self, piece: Tensor) -> Tensor:
        if self._scratch.numel() < piece.numel() or self._scratch.device != self._device:
            with torch.inference_mode(False):
                self._scratch = torch.empty(CHUNK, device=self._device)
        return self._scratch[: piece.numel()].copy_(piece)


def is_finite(tensor: Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinity; makes no temporary."""
    # NaN and infinity always reach the sum, at two thirds of the price of the extremes, which settle a mere overflow.
    return math.isfinite(tensor.sum().item()) or all(bool(extreme.isfinite()) for extreme in torch.aminmax(tensor))


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
