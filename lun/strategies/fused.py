"""Whether torch's Adam updates all tensors by one kernel: the same numbers, in a third of the traffic, or time."""

from collections.abc import Mapping
from typing import Any

from ldm.util import Recipe
from lun.strategies.combinations import Strategy

ADAMS = ("torch.optim.AdamW", "torch.optim.Adam")
STATED = ("fused", "foreach", "capturable", "differentiable")
"""Arguments by which a config chooses a kernel itself."""
DEVICES = ("cuda", "cpu")
"""Where torch's own choice is another: an operation for each of a dozen terms over all weights, which on CUDA takes a
further copy of them, and on the CPU three times as long."""
WHOLE: tuple[Strategy, ...] = ("one device", "ddp")
"""Strategies whose ranks step whole tensors; the others choose by what they cut weights into."""


def steps_fused(optimizer: Recipe, device: str, strategy: Strategy, precision: str) -> bool:
    """Whether the optimizer of a recipe is to be built with `fused=True`, where its settings say nothing of it.

    precision  not under 16-mixed, where such a kernel divides by the loss scale within, so that nothing could clip
    """
    params: Mapping[str, Any] = optimizer.get("params") or {}
    silent = not any(name in params for name in STATED)
    return (
        silent
        and optimizer.get("target") in ADAMS
        and device in DEVICES
        and strategy in WHOLE
        and precision != "16-mixed"
    )
