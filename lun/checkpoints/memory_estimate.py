"""How many bytes the state of a training takes, part by part: in memory, and in a checkpoint."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import Optimizer

from ldm.lightning_classes import LightningModule
from lun.loop.contract import model_of

UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes of the trained weights, of frozen ones with buffers, and of what each trained weight brings along."""

    trained: int
    frozen: int
    gradients: int
    optimizer: int
    ema: int
    left_out: int = 0
    """Of the frozen ones, those that checkpoints leave out, since they are read from files again."""

    @property
    def checkpoint(self) -> int:
        """Of one checkpoint, which holds everything but gradients and what is left out."""
        return self.trained + self.frozen - self.left_out + self.optimizer + self.ema

    def lines(self) -> str:
        """`weights 3.4 GB + gradients 3.4 GB + optimizer 6.9 GB + EMA 3.4 GB + frozen parts 0.8 GB`."""
        named = {
            "weights": self.trained,
            "gradients": self.gradients,
            "optimizer": self.optimizer,
            "EMA": self.ema,
            "frozen parts": self.frozen,
        }
        return " + ".join(f"{name} {amount(size)}" for name, size in named.items() if size)


def memory_estimate(pl_module: LightningModule, optimizers: Iterable[Optimizer]) -> MemoryEstimate:
    """That of a model on this rank. The state that an optimizer does not have yet follows from its settings."""
    optimizers = list(optimizers)
    trained = sum(p.nbytes for p in pl_module.parameters() if p.requires_grad)
    frozen = sum(p.nbytes for p in pl_module.parameters() if not p.requires_grad)
    frozen += sum(buffer.nbytes for buffer in pl_module.buffers())
    state = sum(held(list(optimizer.state.values())) for optimizer in optimizers)
    state = state or sum(map(_to_come, optimizers))
    base = model_of(pl_module).base
    left_out = sum(parameter.nbytes for name, parameter in pl_module.named_parameters() if base.holds(name))
    master = trained + held(model_of(pl_module).split_weights.lower_halves())
    return MemoryEstimate(master, frozen, trained, state, _averages(pl_module, master), left_out)


def _to_come(optimizer: Optimizer) -> int:
    """Two numbers for each weight where there are betas, as in Adam's family, one with momentum, else none."""
    groups: list[dict[str, Any]] = optimizer.param_groups
    moments = [2 if "betas" in group else bool(group.get("momentum")) for group in groups]
    return sum(count * sum(p.nbytes for p in group["params"]) for count, group in zip(moments, groups, strict=True))


def _averages(pl_module: LightningModule, trained: int) -> int:
    """Bytes of all averages; of one for each trained weight where they begin later."""
    ema = model_of(pl_module).model_ema
    return 0 if ema is None else held([ema.state_dict(), ema.resume_state()]) or trained


def held(value: Any) -> int:
    """Bytes of all tensors in nested maps and sequences."""
    if isinstance(value, torch.Tensor):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(held(item) for item in value.values())
    return sum(held(item) for item in value) if isinstance(value, Sequence) and not isinstance(value, str) else 0


def amount(size: float) -> str:
    """`7.7 GB`; units of a thousand, as disks are sold and as tools count free space."""
    for unit, name in UNITS:
        if size >= unit:
            return f"{size / unit:.1f} {name}" if size < 100 * unit else f"{size / unit:.0f} {name}"
    return f"{size:.0f} bytes"
