"""Arguments of Lightning's Trainer that mean nothing in one endless epoch: which values are refused, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

_ENDLESS = "training is one endless epoch, in which no picture is left out"
_NOTHING_TESTED = "a run trains and validates; it neither tests nor predicts"
_DELETE = "delete the line"


@dataclass(frozen=True)
class IdleArgument:
    """An argument without effect here: `harmless` values ask for what is so anyway, any other is refused."""

    why: str
    fix: str = _DELETE
    harmless: tuple[Any, ...] = (None,)


IDLE: Mapping[str, IdleArgument] = {
    "fast_dev_run": IdleArgument(
        "it would leave out savers and loggers, which are part of what is to be tried",
        "--max_steps 2",
        (None, False, 0),
    ),
    "min_epochs": IdleArgument("a stop that was asked for (signal, time limit, callback) is obeyed at once"),
    "min_steps": IdleArgument("a stop that was asked for (signal, time limit, callback) is obeyed at once"),
    "max_time": IdleArgument("it would not save before it stops", "--time-limit 8:00    (hours and minutes)"),
    "limit_train_batches": IdleArgument(
        _ENDLESS, "--max_steps 100, or fewer pictures: data.params.train.params.limit_images=100", (None, 1.0)
    ),
    "overfit_batches": IdleArgument(_ENDLESS, "data.params.train.params.limit_images=4", (None, 0, 0.0)),
    "limit_test_batches": IdleArgument(_NOTHING_TESTED),
    "limit_predict_batches": IdleArgument(_NOTHING_TESTED),
    "reload_dataloaders_every_n_epochs": IdleArgument(_ENDLESS, harmless=(None, 0)),
    "check_val_every_n_epoch": IdleArgument(_ENDLESS, "lightning.trainer.val_check_interval=2.0    (every two epochs)"),
    "use_distributed_sampler": IdleArgument("the data module cuts batches to ranks by itself", harmless=(None, False)),
    "enable_checkpointing": IdleArgument(
        "a run always saves when it ends, so that it can go on",
        "lightning.callbacks.NAME=null    (leaves out one of the other savers)",
        (None, True),
    ),
    "enable_autolog_hparams": IdleArgument(
        "models here hand Lightning no hyperparameters; the run keeps its whole configuration",
        harmless=(None, True),
    ),
    "model_registry": IdleArgument("nothing is uploaded while training", "afterwards: python -m lun.convert"),
    "barebones": IdleArgument(
        "it would leave out savers, loggers and validation",
        "lightning.callbacks.NAME=null lightning.logger.NAME=null",
        (None, False),
    ),
}
"""Refused by name, unless the value is harmless."""

_PRECISIONS = ("32-true", "bf16-mixed", "16-mixed", "bf16-true", "bf16-master", 32, "32", "bf16", 16, "16")
_REFUSED_WITH_A_REASON = ("16-true", 64, "64", "64-true", "transformer-engine", "transformer-engine-float16")
_PRECISION: Any = Literal[(*_PRECISIONS, *_REFUSED_WITH_A_REASON)]

TYPES: Mapping[str, Any] = {"val_check_interval": int | float | None, "precision": _PRECISION | None}
"""What an argument takes here, where Lightning's own is another: no intervals in time, and a precision more."""


def refusal(name: str, value: Any, beside: Mapping[str, Any]) -> IdleArgument | None:
    """Why an argument of the Trainer would have no effect with this value, `beside` the others; None where it has."""
    idle = IDLE.get(name)
    if idle is not None and not any(type(value) is type(same) and value == same for same in idle.harmless):
        return idle
    if name == "gradient_clip_algorithm" and value is not None and not beside.get("gradient_clip_val"):
        return IdleArgument("it says how gradient_clip_val clips, which is not set", "--gradient_clip_val 1.0")
    return None
