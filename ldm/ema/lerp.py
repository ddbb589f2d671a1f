"""Moving averages towards weights in one pass over memory, without temporaries of the model's size, NaN kept out."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ldm.ema import compiled

# Elements that torch handles at a time: 4 MB of fp32, long enough to hide the overhead of a call, short enough to be
# still in the cache when what was checked or converted is averaged.
CHUNK = 1 << 20


@torch.no_grad()
def lerp(averages: Sequence[Tensor], sources: Sequence[Tensor], weights: Sequence[float]) -> int:
    """average += weight * (source - average) for each of the averages; returns how many source values are not finite.

    averages   flat fp32 tensors on one device, each as long as all sources together
    sources    tensors of any dtype, shape and device, in the order in which the averages hold them
    weights    one per average, between 0 and 1

    A source value that is NaN or infinite leaves its average as it is, bit for bit. On the CPU compiled code does it
    (`compiled`) with torch's number of threads, or torch, both with the rounding of `torch.lerp`. ValueError, with
    nothing written, if the sizes differ.
    """
    placed = list(_placed(sources))
    size = sum(source.numel() for source in sources)
    if any(average.numel() != size for average in averages):
        raise ValueError("averages and weights differ in size: the parameters changed since the averages began")
    if averages[0].device.type != "cpu":
        return _on_device(averages, placed, weights)
    kernel = compiled.kernel()
    if kernel is None:
        return _in_chunks(averages, placed, weights)
    fit = [(at, source) for at, source in placed if _fits(source)]
    rest = [(at, source) for at, source in placed if not _fits(source)]
    return kernel.lerp(averages, fit, weights, torch.get_num_threads()) + _in_chunks(averages, rest, weights)


def _placed(sources: Sequence[Tensor]) -> Iterator[tuple[int, Tensor]]:
    at = 0
    for source in sources:
        yield at, source.detach()
        at += source.numel()


def _fits(source: Tensor) -> bool:
    return source.device.type == "cpu" and source.dtype in compiled.DTYPES and source.is_contiguous()


def _in_chunks(averages: Sequence[Tensor], sources: Sequence[tuple[int, Tensor]], weights: Sequence[float]) -> int:
    """By torch: a chunk is checked right before it is read again from the cache."""
    scratch = torch.empty(min(CHUNK, max((source.numel() for _, source in sources), default=0)))
    lost = 0
    for start, source in sources:
        flat = source.reshape(-1)  # copies a tensor that is not contiguous: one at a time
        as_it_is = flat.dtype == torch.float32 and flat.device.type == "cpu"
        for offset in range(0, flat.numel(), CHUNK):
            chunk = flat[offset : offset + CHUNK]
            values = chunk if as_it_is else scratch[: chunk.numel()].copy_(chunk)
            whole = _is_finite(values)
            for average, weight in zip(averages, weights, strict=True):
                own = average[start + offset : start + offset + values.numel()]
                own.lerp_(values if whole else torch.where(values.isfinite(), values, own), weight)
            lost += 0 if whole else int((~values.isfinite()).sum())
    return lost


def _on_device(averages: Sequence[Tensor], sources: Sequence[tuple[int, Tensor]], weights: Sequence[float]) -> int:
    """On an accelerator, where temporaries of one tensor are cheap and each question to the device is not: one."""
    lost = torch.zeros((), dtype=torch.int64, device=averages[0].device)
    for start, source in sources:
        values = source.to(lost.device, torch.float32).reshape(-1)
        finite = values.isfinite()
        lost += (~finite).sum()
        for average, weight in zip(averages, weights, strict=True):
            own = average[start : start + values.numel()]
            own.lerp_(torch.where(finite, values, own), weight)
    return int(lost)


def _is_finite(tensor: Tensor) -> bool:
    """Whether a tensor holds neither NaN nor infinity; makes no temporary."""
    # NaN and infinity always reach the sum, at two thirds of the price of the extremes, which settle a mere overflow.
    return math.isfinite(tensor.sum().item()) or all(bool(extreme.isfinite()) for extreme in torch.aminmax(tensor))
