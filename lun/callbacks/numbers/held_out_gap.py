"""How much better a run does on what it trains on than on pictures held out, at the same noise; and for how long."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ldm.diffusion.draws import key
from ldm.diffusion.number_limits import FROM_ONE, require_limits
from ldm.lightning_classes import LightningModule, Trainer
from ldm.models.diffusion.picture_size import pixels_of_sides
from ldm.models.example_losses import Column, Rows
from ldm.models.pixels import on_device
from lun.callbacks.numbers.example_numbers import ExampleNumbers, gathered, of_all_ranks
from lun.checkpoints.manifest import Manifest
from lun.data.order.law import Key, Size
from lun.loop.contract import data_of

log = logging.getLogger(__name__)

Batch = Mapping[str, Any]
OF_A_SET = ("kind", "timesteps", "weight")
"""What training says of an example that would change its noise level or its target."""


class HeldOutGap(ExampleNumbers):
    """Logs after each validation, of the first pictures held out and as many of training, with raw weights:

    val/loss_of_trained  mean loss of these training pictures, each with the noise and at the level of one held out
    val/gap              mean of `loss_simple` held out less that: it grows where pictures are memorised

    Training pictures are drawn once, by the seed, and are the same at each validation. One warning comes where the
    loss held out (of averaged weights where there are some) rises from validation to validation, with the best
    checkpoint's name.

    pictures  compared on each rank, in whole batches; each costs a forward pass a validation
    patience  so many validations in a row have to be worse than the one before
    """

    limits = {"pictures": FROM_ONE, "patience": FROM_ONE}

    def __init__(self, pictures: int = 64, patience: int = 3) -> None:
        require_limits("HeldOutGap", self.limits, {"pictures": pictures, "patience": patience})
        self.pictures = pictures
        self.patience = patience
        self.course = HeldOutLosses()
        self._met: list[Met] = []
        self._of_trained: Rows = {}

    def columns(self) -> Mapping[str, Column]:
        return {"slot": lambda batch: batch["slot"].tolist()}

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        if not data_of(trainer).has("validation"):
            log.info("note: HeldOutGap does nothing: no pictures are held out (data.params.validation)")
        self._folder = Path(trainer.default_root_dir)

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        if not trainer.sanity_checking and batch_idx * data_of(trainer).batch_size < self.pictures:
            self._met.append(Met.of(trainer, pl_module, batch))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Before the averaged weights take the place of the raw ones."""
        met, self._met = self._met, []
        self._averaged = pl_module.model_ema is not None
        if met:
            slots = np.array([slot for one in met for slot in one.slots], np.float64)
            losses = torch.cat([*losses_of_trained(trainer, pl_module, met)]).cpu().double().numpy()
            rows = {"slot": slots[slots >= 0], "loss": losses[slots >= 0]}
            if trainer.world_size > 1:
                rows = of_all_ranks(rows, gathered, trainer.strategy.reduce, pl_module.device)
            self._of_trained = rows

    def measure(self, phase: str, rows: Rows, step: int) -> Mapping[str, float]:
        if phase == "train":
            return {}
        if self._averaged == (phase == "val_ema"):
            self._watch(step, float(rows["loss"].mean()))
        return self._gap(rows) if phase == "val" else {}

    def _gap(self, rows: Rows) -> dict[str, float]:
        trained = dict(zip(self._of_trained["slot"].tolist(), self._of_trained["loss"].tolist(), strict=True))
        pairs = [(own, trained[slot]) for slot, own in zip(rows["slot"], rows["loss"], strict=True) if slot in trained]
        pairs = [pair for pair in pairs if np.isfinite(pair).all()]
        if not pairs:
            return {}
        held_out, of_trained = (float(np.mean(side)) for side in zip(*pairs, strict=True))
        return {"val/loss_of_trained": of_trained, "val/gap": held_out - of_trained}

    def _watch(self, step: int, loss: float) -> None:
        if self.course.rises(step, loss) != self.patience:
            return
        kept = nearest_checkpoint(self._folder, self.course.best_step)
        log.warning(
            "the loss of pictures held out has risen %d times in a row, to %.4g; best at step %d: %.4g (%s)",
            *(self.patience, loss, self.course.best_step, self.course.best),
            f"nearest: {kept}" if kept else "no checkpoint is kept; one that monitors it is, see configs/README.md",
        )

    def state_dict(self) -> dict[str, Any]:
        return vars(self.course).copy()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self.course).update(state_dict)


class HeldOutLosses:
    """Losses of one validation after the other."""

    def __init__(self) -> None:
        self.best, self.best_step = float("inf"), 0
        self.last, self.last_step = float("inf"), -1
        self.risen = 0

    def rises(self, step: int, loss: float) -> int:
        """Of how many validations in a row, up to this one, each was worse than the one before."""
        if step != self.last_step:
            self.risen = self.risen + 1 if loss > self.last else 0
            self.last, self.last_step = loss, step
            if loss < self.best:
                self.best, self.best_step = loss, step
        return self.risen


class Met(NamedTuple):
    """The slots (b,) of a batch for validation, the training pictures that meet its noise, and itself without any."""

    slots: list[int]
    keys: list[Key]
    batch: Batch | None

    @classmethod
    def of(cls, trainer: Any, model: Any, batch: Batch) -> "Met":
        """Training pictures are drawn of those that are read at the batch's size."""
        size = _size(trainer, model, batch)
        examples, seed = _examples(trainer, size), key(model.seed, "pictures to compare")
        slots: list[int] = batch["slot"].tolist()
        if not len(examples):
            return cls(slots, [], batch)
        keys = [Key(slot, int(examples[key(seed, "example", slot) % len(examples)]), size) for slot in slots]
        return cls(slots, keys, None)


def losses_of_trained(trainer: Any, model: Any, met: Sequence[Met]) -> Iterator[Tensor]:
    """Losses (b,) of training pictures at the noise of each batch; NaN where none is read at its size.

    They are read as for training, since there are data that only a worker may read.
    """
    read = trainer.train_dataloader.once([one.keys for one in met if one.keys])
    for one in met:
        if one.batch is None:
            yield _losses(trainer, model, on_device(model, next(read)))
        else:  # computed all the same: ranks that share out weights have to compute equally often
            yield torch.full_like(_losses(trainer, model, one.batch), torch.nan)


@torch.no_grad()
def _losses(trainer: Any, model: Any, batch: Batch) -> Tensor:
    without_set = {name: value for name, value in batch.items() if name not in OF_A_SET}
    with trainer.precision_plugin.val_step_context():
        draws = model.draws(without_set)
        x0 = model.encode(without_set, draws)
        losses: Tensor = model.losses(x0, model.condition(without_set, None, x0), draws, without_set).simple
    return losses


def _size(trainer: Any, model: Any, batch: Batch) -> Size | None:
    """The size at which a batch was read; None where the data set decides."""
    if trainer.datamodule.buckets is None:
        return None
    if "moments" in batch:
        height, width = pixels_of_sides(model, batch["moments"].shape[-2:])
    else:
        height, width = batch["image"].shape[1:3]
    return int(width), int(height)


def _examples(trainer: Any, size: Size | None) -> Any:
    """The training pictures that are read at a size, by number."""
    if size is None:
        return range(len(data_of(trainer).dataset("train")))
    return next((one.examples for one in trainer.datamodule.table("train").buckets if one.size == size), ())


def nearest_checkpoint(run: Path, step: int) -> str | None:
    """The checkpoint of a run whose step is nearest to this one, below the run's folder."""
    found = ((path, Manifest.read(path)) for path in sorted((run / "checkpoints").rglob("*.ckpt")))
    steps = {path: manifest.step for path, manifest in found if manifest is not None and manifest.step is not None}
    if not steps:
        return None
    nearest = min(steps, key=lambda path: abs(steps[path] - step))
    return f"{nearest.relative_to(run)} of step {steps[nearest]}"
