"""Whether the value that ranks checkpoints is there at all."""

import difflib

from ldm.errors import Fault
from ldm.lightning_classes import LightningModule, Trainer
from lun.loop.contract import model_of


def validates(trainer: Trainer) -> bool:
    """Whether this training has validation batches; known from `on_train_start` on."""
    return trainer.enable_validation and any(count > 0 for count in trainer.num_val_batches)


def never_logged(trainer: Trainer, pl_module: LightningModule, monitor: str) -> Fault:
    """TRN02: `monitor` is not among the metrics of a validation."""
    known = sorted(trainer.callback_metrics)
    near = difflib.get_close_matches(monitor, known, n=1, cutoff=0.3)
    return Fault(
        "TRN02",
        f"a checkpoint monitors {monitor}, but after a validation only these exist: {', '.join(known) or 'none'}",
        where="lightning.callbacks: a checkpoint's params.monitor",
        why="the model has no EMA (model.params.use_ema=false), so the _ema values are not computed"
        if monitor.endswith("_ema") and model_of(pl_module).model_ema is None
        else "",
        fix=f"model.params.monitor={near[0]}" if near else "name a metric that the model logs in validation",
    )
