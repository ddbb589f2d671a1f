"""Steps that would make the weights NaN or infinite: found before they are taken, reported with what led there."""

import logging
import math
from collections import deque
from dataclasses import dataclass, field
from operator import is_not
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import Tensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from ldm.errors import Fault
from ldm.training.clipping import KnownNorm
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


@dataclass(frozen=True)
class StepMeasurements:
    """What is known of a step before it is taken: its number, the loss of each micro-batch, the gradient's norm.

    total   the norm as it was measured, on its device
    """

    step: int
    losses: list[float]
    norm: float
    total: Tensor = field(repr=False, compare=False)

    @property
    def loss(self) -> float:
        """Of the whole window, since each micro-batch's loss is already divided by their number."""
        return sum(self.losses)


@dataclass
class Course:
    """How the steps of one optimizer went: the last ones that were taken, and how many in a row were not."""

    taken: deque[StepMeasurements] = field(default_factory=lambda: deque(maxlen=HISTORY))
    left_out: int = 0


class Divergence(Callback):
    """Stops the run (`Fault` TRN01) right before an optimizer step whose loss or gradient is NaN or infinite.

    The weights are then still those of the step before. float16's scaler leaves such steps out by itself and halves its
    scale; that is a fault only for several in a row at a scale of 1 or less. A device is waited for once a step, never
    for a micro-batch.

    skip_steps   how many such steps in a row are left out and logged instead; they count as steps, as the scaler's do
    """

    def __init__(self, skip_steps: int = 0) -> None:
        self.skip_steps = skip_steps
        self._losses: list[Tensor] = []
        self._courses: dict[int, Course] = {}
        self._stepped_after: int | None = None
        self._last_to_look = False
        self._agreement = RankAgreement()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        shared = agreement_of(trainer)
        if shared is None:
            self._agreement.join(trainer, pl_module)
        else:
            self._agreement = shared
        self._losses, self._courses, self._stepped_after = [], {}, None
        later = trainer.callbacks[trainer.callbacks.index(self) + 1 :]
        self._last_to_look = not any(is_overridden("on_before_optimizer_step", one, Callback) for one in later)

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        self._losses.append(loss.detach())

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        scale = scaler.get_scale() if scaler is not None else 1.0
        losses, self._losses = self._losses, []
        whole = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients = [one if type(one) is Tensor else _held(one) for one in whole]
        measured = measure(step_of(pl_module) + 1, losses, gradients, scale)
        course = self._courses.setdefault(id(optimizer), Course())
        if not self._agreement.largest(int(not sound(measured, gradients))):
            course.taken.append(measured)
            course.left_out = 0
            self._stepped_after = step_of(pl_module)
            spread = any(map(is_not, whole, gradients))  # over ranks, each of which knows the norm of its part alone
            if self._last_to_look and gradients and not spread:
                model_of(pl_module).known_norm = KnownNorm(optimizer, measured.total, measured.norm)
            return
        if scaler is not None:
            course.left_out = course.left_out + 1 if scale <= SCALE_FLOOR else 0
            if course.left_out < SKIPS_AT_FLOOR:
                return
        elif gradients and course.left_out < self.skip_steps:
            course.left_out += 1
            optimizer.zero_grad(set_to_none=True)
            log.warning("%s; step left out (%d of %d)", happened(measured), course.left_out, self.skip_steps)
            return
        self._mark(trainer, pl_module)
        raise diverged(trainer, measured, course, optimizer.param_groups[0]["lr"])

    def _mark(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """What is saved from here on says so; it may be, unless another optimizer has taken its half of this step."""
        position = follower(trainer)
        position.diverged = True
        position.dirty = self._stepped_after == step_of(pl_module)


def measure(step: int, losses: list[Tensor], gradients: list[Tensor], scale: float = 1.0) -> StepMeasurements:
    """Read losses and the norm of the gradients from the device in one go; losses come multiplied by `scale`."""
    norm = get_total_norm(gradients) if gradients else torch.zeros(())
    numbers = [loss.float().reshape(()) for loss in losses] + [norm.float()]
    device = numbers[0].device
    *scaled, total = torch.stack([number.to(device) for number in numbers]).tolist()
    return StepMeasurements(step, [loss / scale for loss in scaled], total, norm)


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
    return [name for micro in bad for name in data.files(micro)] if bad else data.files()


def _listed(files: list[str]) -> str:
    more = len(files) - FILES_SHOWN
    return ", ".join(files[:FILES_SHOWN]) + (f" and {more} more" if more > 0 else "")
