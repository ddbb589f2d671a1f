"""The averaged weights that a schedule-free optimizer keeps by itself, in the place of an EMA.

Such an optimizer (Defazio et al. 2024, arXiv 2405.15682) trains y, what the model holds, and keeps z; what is meant to
be used is x = y + (1 - 1 / beta) (z - y). Here x goes where an EMA goes: it is validated, sampled from, exported and
saved under `model_ema.`. Checkpoints hold y and z, so a resume is exact.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ldm.ema.checkpoint_state import Rename, compvis_keys
from ldm.ema.model_weights import LocalParameters
from ldm.ema.shadow import parked, put_back
from ldm.errors import Fault

logger = logging.getLogger(__name__)

MODE = "train_mode"
"""What the groups of such an optimizer hold: whether the model has y."""


def is_schedule_free(optimizer: Optimizer) -> bool:
    """Whether it averages the weights itself."""
    return any(MODE in group for group in optimizer.param_groups)


def not_beside_ema(target: str) -> Fault:
    """Says that such an optimizer leaves nothing to an EMA."""
    return Fault(
        "CFG08",
        f"{target} averages the weights itself: an EMA cannot stand beside it",
        where="model.params.use_ema",
        why="an average of the weights that it trains at is neither these nor those that it means to be used",
        fix="model.params.use_ema=false: then its own average is validated, sampled from and exported",
    )


def not_in_shards() -> Fault:
    """Says that such an optimizer needs whole weights."""
    return Fault(
        "CFG08",
        "a schedule-free optimizer cannot be used where weights are in shards",
        where="model.params.optimizer_config",
        why="its average is made of whole weights",
        fix="lightning.trainer.strategy=ddp, or torch.optim.AdamW",
    )


class ScheduleFree:
    """What `LitEma` is to a model, of an optimizer's own average: nothing is kept, x is computed where it is asked for.

    Never `optimizer.eval()` and `train()` around whatever looks at x: they do not give back the bits of y.
    """

    widths: tuple[float, ...] = ()
    update_every = 1
    stall_ms: float | None = None
    skipped_nonfinite = 0
    started = True

    def __init__(self, model: nn.Module, optimizers: Sequence[Optimizer]) -> None:
        self._source = LocalParameters(model)
        if any(hasattr(tensor, "full_tensor") for tensor in self._source.tensors().values()):
            raise not_in_shards()
        self._optimizers = optimizers
        name = type(optimizers[0]).__name__
        logger.info("note: %s averages the weights itself: its average is validated, sampled from and exported", name)
        self._raw: dict[str, Tensor] | None = None
        self.step = 0

    def update(self, step: int) -> None:
        """The optimizer has averaged already."""
        self.step = step

    def gate(self) -> None:
        """Nothing is on its way."""

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Put x into the model for the duration; afterwards y is back bit for bit. RuntimeError if x is in it."""
        if self.swapped:
            raise RuntimeError("the averaged weights are in the model already")
        tensors, average = self._source.tensors(), self.averaged_state()
        raw = parked(tensors, torch.device("cpu"))
        try:
            self._raw = raw
            put_back(average, tensors)
            yield
        finally:
            put_back(raw, tensors)
            self._raw = None

    ema_scope = scope

    @property
    def swapped(self) -> bool:
        """Whether x is in the model at the moment."""
        return self._raw is not None

    @torch.no_grad()
    def averaged_state(self) -> dict[str, Tensor]:
        """x by name: copies, in fp32."""
        kept_by = {
            id(p): (one, group) for one in self._optimizers for group in one.param_groups for p in group["params"]
        }
        tensors = self._source.tensors()
        raw = self._raw or tensors
        return {name: _average(*kept_by[id(tensors[name])], tensors[name], raw[name]) for name in tensors}

    def raw_state(self) -> dict[str, Tensor]:
        """y by name, also while x is in the model."""
        return dict(self._raw or {name: tensor.detach() for name, tensor in self._source.tensors().items()})

    def state_dict(self, rename: Rename = dict) -> dict[str, Tensor]:
        """x under CompVis' EMA keys without `model_ema.`, and the number of steps."""
        return compvis_keys(rename(self.averaged_state())) | {"num_updates": torch.tensor(self.step, dtype=torch.int32)}

    def load_state_dict(self, state: Mapping[str, Tensor], rename: Rename = dict) -> None:
        """Nothing: x follows from what the optimizer gets back."""

    def resume_state(self, rename: Rename = dict) -> dict[str, Any]:
        """The number of steps, under the name that every average has for it."""
        return {"step": self.step, "start": 0}

    def load_resume_state(self, state: Mapping[str, Any], rename: Rename = dict) -> None:
        """Go on counting."""
        self.step = int(state["step"])

    def reset(self, step: int = 0) -> None:
        """Count from `step`."""
        self.step = step


def _average(optimizer: Optimizer, group: Mapping[str, Any], weight: Tensor, y: Tensor) -> Tensor:
    """x of one weight, in fp32."""
    kept = optimizer.state.get(weight, {})
    if "z" not in kept:  # no step yet, when all three are the same
        return y.detach().float().clone()
    if "x" in kept:  # the reference implementations keep it
        return torch.as_tensor(kept["x"]).float().clone()
    beta = group["betas"][0] if "betas" in group else group["momentum"]
    return y.detach().float().lerp(kept["z"].to(y.device).float(), weight=1 - 1 / beta)
