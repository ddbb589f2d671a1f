"""Clipping gradients: by a norm that is known already, and which optimizers can have theirs clipped at all."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils import clip_grads_with_norm_
from torch.optim import Optimizer

from ldm.errors import Fault
from ldm.lightning_classes import Precision
from ldm.torch_internals import scales_inside_its_step


def require_clippable(optimizers: Iterable[Optimizer], clip: float | None, scaled: bool) -> None:
    """Raise `Fault` CFG08 if a fused optimizer would have to clip: it divides by float16's loss scale only inside."""
    fused = [one for one in optimizers if scales_inside_its_step(one)]
    if clip and scaled and fused:
        name = type(fused[0]).__name__
        raise Fault(
            "CFG08",
            f"a fused {name} cannot clip gradients under 16-mixed",
            where="model.params.optimizer_config.params.fused",
            why="it divides by the loss scale inside its step, so before it there is nothing to measure",
            fix="fused: false, or lightning.trainer.precision=bf16-mixed, or lightning.trainer.gradient_clip_val=null",
        )


def clips_plainly(precision: Precision) -> bool:
    """Whether clipping under `precision` is `torch.nn.utils.clip_grad_norm_` of an optimizer's own gradients."""
    kind: Any = type(precision)
    return _inherits_clipping(kind) and getattr(precision, "scaler", None) is None


@cache
def _inherits_clipping(kind: Any) -> bool:
    """Once a class, since it is asked in every step that is clipped."""
    from lightning.pytorch.plugins.precision import DeepSpeedPrecision, Precision

    own = kind.clip_grad_by_norm is Precision.clip_grad_by_norm and kind.main_params is Precision.main_params
    return own and not issubclass(kind, DeepSpeedPrecision)


@dataclass(frozen=True)
class KnownNorm:
    """The norm of all gradients of an optimizer, measured after the last that changes them before they are clipped.

    norm   as `torch.nn.utils.get_total_norm` gives it, a scalar
    value  the same number, read already; None where the host does not wait for it
    """

    optimizer: Optimizer
    norm: Tensor
    value: float | None = None

    def reaches(self, limit: float) -> bool:
        """Whether `torch.nn.utils.clip_grad_norm_` may multiply by anything but 1, as it does for norms within."""
        if self.value is None:
            return True
        if 1.02 * self.value + 1e-5 < limit:  # whatever the rounding
            return False
        norm = torch.tensor(self.value, dtype=self.norm.dtype, device="cpu")
        return not bool(limit / (norm + 1e-6) >= 1)

    def clip(self, limit: float) -> None:
        """What `torch.nn.utils.clip_grad_norm_` would do, to the bit."""
        if self.reaches(limit):
            parameters = (one for group in self.optimizer.param_groups for one in group["params"])
            clip_grads_with_norm_(parameters, limit, self.norm)


class GradientNorm:
    """What is known of the gradients of the step at work: from who measures them to who clips them.

    An object of its own, since nn.Module takes 5 us to set an attribute.
    """

    known: KnownNorm | None = None


def clipped(optimizer: Optimizer, known: KnownNorm | None, limit: float, precision: Precision) -> bool:
    """Whether an optimizer's gradients are clipped to a norm of `limit`, or what remains of them, without measuring.

    None remain where they were clipped and stepped within the backward pass.
    """
    if all(one.grad is None for group in optimizer.param_groups for one in group["params"]):
        return True
    if known is None or known.optimizer is not optimizer:
        return False
    if not known.reaches(limit):
        return True
    if plainly := clips_plainly(precision):
        known.clip(limit)
    return plainly
