"""Steps that would make the weights NaN or infinite: found before they are taken, reported with what led there."""

import logging
import math
from collections import deque
from dataclasses import dataclass, field
from operator import is_not
from typing import Any

import torch
from torch import Tensor, distributed
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from ldm.errors import Fault
from ldm.lightning_classes import Callback, LightningModule, Trainer
from ldm.torch_internals import can_leave_out, flag_not_finite, leave_out
from ldm.training.clipping import KnownNorm
from ldm.training.late_numbers import LateNumbers
from lun.checkpoints.saving import kept_file, resume_from
from lun.loop.boundary import agreement_of
from lun.loop.contract import data_of, model_of, step_of
from lun.loop.position_callback import follower
from lun.loop.rank_agreement import RankAgreement

log = logging.getLogger(__name__)

HISTORY = 10
SCALE_FLOOR = 1.0
SKIPS_AT_FLOOR = 5
FILES_SHOWN = 8
READ_LATE = ("cuda",)
"""Devices on which to wait for a number is to keep them waiting for what comes next."""


@dataclass(frozen=True)
class StepMeasurements:
    """What is known of a step before it is taken: its number, the loss of each micro-batch, the gradient's norm.

    slot   where its examples begin
    """

    step: int
    losses: list[float]
    norm: float
    slot: int = 0

    @property
    def loss(self) -> float:
        """Of the whole window, since each micro-batch's loss is already divided by their number."""
        return sum(self.losses)


@dataclass
class Course:
    """How the steps of one optimizer went: the last ones that were taken, and how many in a row were not."""

    taken: deque[StepMeasurements] = field(default_factory=lambda: deque(maxlen=HISTORY))
    left_out: int = 0


@dataclass(frozen=True)
class UnreadStep:
    """What was measured of a step on its device.

    numbers   losses, norm, and 1 where any rank found one that is not finite, else 0
    """

    step: int
    slot: int
    rate: float
    numbers: LateNumbers


class Divergence(Callback):
    """Stops the run (`Fault` TRN01) right before an optimizer step whose loss or gradient is NaN or infinite.

    The weights are then still those of the step before. float16's scaler leaves such steps out by itself and halves its
    scale; that is a fault only for several in a row at a scale of 1 or less.

    The host asks for these numbers once a step, never for a micro-batch. On the CPU, and where nothing else can be
    done, it waits for them. On CUDA fused Adam and AdamW leave out a bad step by themselves, the position counts it,
    and it is reported before the next step, or validation, or the end: no step waits for the host. There a norm that
    overflows counts as infinite, whatever the gradients.

    skip_steps   how many such steps in a row are left out and logged instead; they count as steps, as the scaler's do
    """

    def __init__(self, skip_steps: int = 0) -> None:
        self.skip_steps = skip_steps
        self._losses: list[Tensor] = []
        self._courses: dict[int, Course] = {}
        self._stepped_after: int | None = None
        self._last_to_look = False
        self._guarded: Optimizer | None = None
        self._constants: Tensor | None = None
        self._unread: UnreadStep | None = None
        self._agreement = RankAgreement()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        from lightning.pytorch import Callback  # the real one, which has every hook
        from lightning.pytorch.utilities.model_helpers import is_overridden

        shared = agreement_of(trainer)
        if shared is None:
            self._agreement.join(trainer, pl_module)
        else:
            self._agreement = shared
        self._losses, self._courses, self._stepped_after, self._unread = [], {}, None, None
        self._constants = None
        later = trainer.callbacks[trainer.callbacks.index(self) + 1 :]
        changing = [one for one in later if not getattr(one, "only_looks", False)]
        self._last_to_look = not any(is_overridden("on_before_optimizer_step", one, Callback) for one in changing)
        self._guarded = trainer.optimizers[0] if _leaves_out_by_itself(trainer) else None

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._losses.append(loss.detach())

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        losses, self._losses = self._losses, []
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        whole = [gradient for weight in weights if (gradient := weight.grad) is not None]
        gradients = whole if {Tensor}.issuperset(map(type, whole)) else list(map(_held, whole))
        spread = gradients is not whole and any(map(is_not, whole, gradients))  # over ranks: the norm is of a part
        norm = get_total_norm(gradients) if gradients else torch.zeros(())
        value = None
        if optimizer is self._guarded:
            self._guard(trainer, pl_module, losses, norm)
        elif (measured := self._sound(trainer, pl_module, optimizer, together(losses, norm), gradients)) is not None:
            value = measured.norm
        else:
            return
        if self._last_to_look and gradients and not spread:
            model_of(pl_module).gradient_norm.known = KnownNorm(optimizer, norm, value)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._report(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._report(trainer, pl_module)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if self._guarded is not None:
            leave_out(self._guarded, None)
        self._guarded = self._unread = None

    # Read at once

    def _sound(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        optimizer: Optimizer,
        numbers: Tensor,
        gradients: list[Tensor],
    ) -> StepMeasurements | None:
        """What was measured of a step that may be taken; None for one that changes nothing."""
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        scale = scaler.get_scale() if scaler is not None else 1.0
        *losses, norm = numbers.tolist()
        slot = model_of(pl_module).position.slot
        measured = StepMeasurements(step_of(pl_module) + 1, [loss / scale for loss in losses], norm, slot)
        course = self._courses.setdefault(id(optimizer), Course())
        if not self._agreement.largest(int(not sound(measured, gradients))):
            course.taken.append(measured)
            course.left_out = 0
            self._stepped_after = step_of(pl_module)
            return measured
        if scaler is not None:
            course.left_out = course.left_out + 1 if scale <= SCALE_FLOOR else 0
            if course.left_out < SKIPS_AT_FLOOR:
                return None
        elif gradients and self._may_leave_out(measured, course):
            optimizer.zero_grad(set_to_none=True)
            return None
        self._mark(trainer, pl_module)
        raise diverged(trainer, measured, course, optimizer.param_groups[0]["lr"])

    # Read late

    def _guard(self, trainer: Trainer, pl_module: LightningModule, losses: list[Tensor], norm: Tensor) -> None:
        """Let the device leave out the step that comes now if it is bad, and report the one before."""
        assert self._guarded is not None
        if self._constants is None:
            self._constants = torch.tensor([0.0, 1.0]).to(norm.device, non_blocking=True)
        none, one = self._constants
        numbers = together(losses, norm, none)
        bad = numbers[-1]
        flag_not_finite(numbers[:-1], bad, one)
        if trainer.world_size > 1:
            distributed.all_reduce(bad, distributed.ReduceOp.MAX)
        leave_out(self._guarded, bad)
        before, position = self._unread, model_of(pl_module).position
        rate = self._guarded.param_groups[0]["lr"]
        self._unread = UnreadStep(position.step + 1, position.slot, rate, LateNumbers(numbers))
        self._judge(trainer, pl_module, before)

    def _report(self, trainer: Trainer, pl_module: LightningModule) -> None:
        before, self._unread = self._unread, None
        self._judge(trainer, pl_module, before)

    def _judge(self, trainer: Trainer, pl_module: LightningModule, unread: UnreadStep | None) -> None:
        if unread is None:
            return
        *losses, norm, bad = unread.numbers.read()
        measured = StepMeasurements(unread.step, losses, norm, unread.slot)
        course = self._courses.setdefault(id(self._guarded), Course())
        if not bad:
            course.taken.append(measured)
            course.left_out = 0
        elif not self._may_leave_out(measured, course):
            self._mark(trainer, pl_module)
            raise diverged(trainer, measured, course, unread.rate)

    # What is done about it

    def _may_leave_out(self, measured: StepMeasurements, course: Course) -> bool:
        """Whether one more in a row may be left out, which is then logged."""
        if course.left_out >= self.skip_steps:
            return False
        course.left_out += 1
        log.warning("%s; step left out (%d of %d)", happened(measured), course.left_out, self.skip_steps)
        return True

    def _mark(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What is saved from here on says so; it may be, unless another optimizer has taken its half of this step."""
        position = follower(trainer)
        position.diverged = True
        position.dirty = self._stepped_after == step_of(pl_module)


def _leaves_out_by_itself(trainer: Trainer) -> bool:
    """Whether the one optimizer can learn on its device, without the host, that a step is not to be taken."""
    from lightning.pytorch.plugins.precision import MixedPrecision, Precision

    from lun.loop.advance_internals import is_plain

    stepping = type(trainer.precision_plugin).optimizer_step
    return (
        trainer.strategy.root_device.type in READ_LATE
        and is_plain(trainer)
        and stepping in (Precision.optimizer_step, MixedPrecision.optimizer_step)
        and can_leave_out(trainer.optimizers[0])
    )


def together(losses: list[Tensor], *more: Tensor) -> Tensor:
    """(k + m,) losses and m further scalars in float32 on one device, so that they are read in one go."""
    numbers = [loss.float().reshape(()) for loss in losses] + [number.float() for number in more]
    return torch.stack([number.to(numbers[0].device) for number in numbers])


def _held(gradient: Any) -> Tensor:
    """What this rank holds of a gradient that is spread over ranks; they agree on what they find."""
    return gradient.to_local() if hasattr(gradient, "to_local") else gradient


def sound(measured: StepMeasurements, gradients: list[Tensor]) -> bool:
    """Whether all is finite. A norm may overflow where no gradient does, so that is looked at before it is believed."""
    if not all(map(math.isfinite, measured.losses)):
        return False
    return math.isfinite(measured.norm) or all(bool(gradient.isfinite().all()) for gradient in gradients)


def happened(measured: StepMeasurements) -> str:
    """`loss became NaN at step 1204`."""
    name, value = "loss", measured.loss
    if math.isfinite(value):
        name, value = "gradient", measured.norm
    return f"{name} became {'NaN' if math.isnan(value) else 'infinite'} at step {measured.step}"


def diverged(trainer: Trainer, measured: StepMeasurements, course: Course, rate: float) -> Fault:
    """TRN01 with everything that helps to find the reason."""
    lines = [f"learning rate {float(rate):.3g}, precision {trainer.precision}"]
    if course.taken:
        first, last = course.taken[0].step, course.taken[-1].step
        losses = " ".join(f"{entry.loss:.4g}" for entry in course.taken)
        norms = " ".join(f"{entry.norm:.3g}" for entry in course.taken)
        lines += [f"steps {first} to {last}: loss {losses}", f"gradient norm {norms}"]
    lines += [f"pictures: {_listed(_suspects(trainer, measured))}", kept_file(trainer)]
    return Fault(
        "TRN01",
        f"{happened(measured)}; stopped before the weights were changed",
        why="\n".join(lines),
        fix="a lower model.base_learning_rate, or precision bf16-mixed, or lightning.trainer.gradient_clip_val=1.0,\n"
        "or leave out such steps: lightning.callbacks.divergence.params.skip_steps=3" + resume_from(trainer),
    )


def _suspects(trainer: Trainer, measured: StepMeasurements) -> list[str]:
    """Files of the micro-batches whose loss is not finite; of the whole step on this rank where none is."""
    bad = [micro for micro, loss in enumerate(measured.losses) if not math.isfinite(loss)]
    data = data_of(trainer)
    micros: list[int | None] = [*bad] or [None]
    return [name for micro in micros for name in data.files(micro, measured.slot)]


def _listed(files: list[str]) -> str:
    more = len(files) - FILES_SHOWN
    return ", ".join(files[:FILES_SHOWN]) + (f" and {more} more" if more > 0 else "")
