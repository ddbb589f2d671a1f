"""Optimizer steps within the backward pass, which leaves no gradients behind."""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.training.clipping import KnownNorm
from ldm.training.steps_in_backward import StepsInBackward, looks_at_one_tensor
from lun.callbacks.divergence import Divergence
from lun.checkpoints.saving import kept_file, resume_from
from lun.loop.contract import model_of, step_of
from lun.loop.position_callback import follower

WHERE = "lightning.callbacks.fused_backward"


class FusedBackward(Callback):
    """Steps each parameter as soon as its gradient is whole, within the backward pass, and frees the gradient.

    The memory of all gradients is saved: 4 bytes a trained parameter, in bf16-true and bf16-master 2. What is learned
    is the same to the bit, but for clipping: by the norm of the step before, and each parameter's gradient by its own
    (`ldm.training.steps_in_backward`). For one device and windows of one micro-batch, with optimizers that look at one
    tensor at a time: torch's, bitsandbytes' and this program's Adafactor and Muon.

    A loss that is not finite ends the run before anything is stepped (`Fault` TRN01). Where a gradient is not, in a
    pass whose loss is, it counts as zero, other parameters are stepped already, and the run ends without a save.
    """

    def __init__(self) -> None:
        self._fused: StepsInBackward | None = None
        self._previous: float | None = None

    def require_whole_steps(self, execution: Any, model: Any, callbacks: Sequence[Callback]) -> None:
        """Raise `Fault` CFG08 for settings with which steps within a backward pass would be others."""
        window = execution.settings.get("accumulate_grad_batches") or 1
        kind = admitted(model.optimizer_config["target"])
        skips = any(isinstance(one, Divergence) and one.skip_steps for one in callbacks)
        for wrong, what, why, fix in (
            (window > 1, f"windows of {window} micro-batches", _HALVES, "lightning.trainer.accumulate_grad_batches=1"),
            (execution.precision.name == "16-mixed", "16-mixed", _SCALED, "lightning.trainer.precision=bf16-mixed"),
            (execution.kind != "one device", f"the strategy {execution.kind}", _RANKS, "--devices 1"),
            (not model.automatic_optimization, "two optimizers", _TURNS, f"{WHERE}=null"),
            (not looks_at_one_tensor(kind), kind.__name__, _WHOLE, "--base ... adafactor"),
            (skips, "skip_steps", _LATE, "lightning.callbacks.divergence.params.skip_steps=0"),
        ):
            if wrong:
                raise Fault("CFG08", f"the backward pass cannot step with {what}", where=WHERE, why=why, fix=fix)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        optimizer = trainer.optimizers[0]
        plugin: Any = trainer.precision_plugin

        def step(number: int) -> None:
            if hasattr(plugin, "step"):
                plugin.step(optimizer, pl_module, number)
            else:
                optimizer.step()

        limit, by_value = trainer.gradient_clip_val or None, trainer.gradient_clip_algorithm == "value"
        weights = model_of(pl_module).split_weights
        self._fused = StepsInBackward(optimizer, step, weights, limit, by_value)
        self._fused.previous = self._previous
        self._fused.attach()

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        value = loss.item()
        if not math.isfinite(value):
            follower(trainer).diverged = True
            raise _diverged(trainer, pl_module, "loss", value, "stopped before the weights were changed")
        if (ema := model_of(pl_module).model_ema) is not None:
            ema.gate()  # weights that it still copies must not change under it
        follower(trainer).dirty = True

    def on_after_backward(self, trainer: Trainer, pl_module: LightningModule) -> None:
        assert self._fused is not None
        norm = self._fused.end_of_pass()
        self._previous = self._fused.previous = value = norm.item()
        if not math.isfinite(value):
            follower(trainer).diverged = True
            raise _diverged(
                trainer, pl_module, "gradient", value, "some of the weights were stepped before it was seen"
            )
        model_of(pl_module).gradient_norm.known = KnownNorm(self._fused.optimizer, norm, value)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self._fused is not None:
            self._fused.detach()
            self._fused = None

    def state_dict(self) -> dict[str, Any]:
        """The norm by which the next step clips."""
        return {"norm": self._previous}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._previous = state_dict["norm"]


_HALVES = "the first micro-batch of a window would be stepped by itself"
_SCALED = "whether a step may be taken is known only when the scale of all gradients has been looked at"
_RANKS = "gradients of the ranks are put together only after the backward pass"
_TURNS = "the optimizers of an autoencoder and its discriminator take turns within a step"
_WHOLE = "it may look at all parameters together, or count its calls; those of torch and bitsandbytes do not"
_LATE = "a step is made when the whole of its gradients is seen, and cannot be left out any more"


def _diverged(trainer: Trainer, pl_module: LightningModule, name: str, value: float, stopped: str) -> Fault:
    """TRN01; unlike `divergence.diverged` it offers no steps to leave out."""
    optimizer: Optimizer = trainer.optimizers[0]
    rate = float(optimizer.param_groups[0]["lr"])
    return Fault(
        "TRN01",
        f"{name} became {'NaN' if math.isnan(value) else 'infinite'} at step {step_of(pl_module) + 1}; {stopped}",
        why=f"learning rate {rate:.3g}, precision {trainer.precision}\n{kept_file(trainer)}",
        fix="a lower model.base_learning_rate, or lightning.trainer.gradient_clip_val=1.0" + resume_from(trainer),
    )
