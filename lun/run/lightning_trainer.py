"""Build Lightning's Trainer: the program's own callbacks around the user's, defaults under what the config says."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.model_helpers import is_overridden
from torch import Tensor

from ldm.errors import Fault
from ldm.missing_packages import torch_line
from ldm.util import Recipe, instantiate_from_config
from lun.run.resolved import ResolvedRun


class ProgramTrainer(Trainer):
    """Lightning's Trainer, whose callbacks read the latest step's metrics though loggers get one in many."""

    @property
    def callback_metrics(self) -> dict[str, Tensor]:
        latest: Callable[[], dict[str, Tensor]] = getattr(self.lightning_module, "latest_metrics", dict)
        return super().callback_metrics | latest()


def require_device(trainer: Mapping[str, Any]) -> None:
    """Raise `Fault` DEV01 if a GPU was asked for and torch sees none."""
    asked = trainer.get("accelerator")
    if asked in ("gpu", "cuda") and not torch.cuda.is_available():
        build = (
            "a CPU build"
            if torch.version.cuda is None and torch.version.hip is None
            else "a GPU build without a usable device"
        )
        raise Fault(
            "DEV01",
            f"accelerator {asked} was asked for, but torch sees none",
            where="lightning.trainer.accelerator",
            why=f"torch {torch.__version__} is {build}",
            fix=f"{torch_line('cuda')}\nwith a GPU of AMD: {torch_line('rocm')}\n"
            "without a GPU: --accelerator cpu      what does not fit: python main.py --doctor",
        )


def build_callbacks(recipes: Mapping[str, Recipe | None]) -> list[Callback]:
    """The configured callbacks; a name set to null is left out. `Fault` CFG08 for two bars or savers of one file."""
    built = {name: instantiate_from_config(recipe) for name, recipe in recipes.items() if recipe is not None}
    bars = [name for name, callback in built.items() if isinstance(callback, ProgressBar)]
    if len(bars) > 1:
        first, second = (f"lightning.callbacks.{name}" for name in bars[:2])
        raise Fault("CFG08", f"{first} and {second} are both progress bars", where=second, fix=f"{first}=null")
    _require_own_places(built)
    return list(built.values())


def _require_own_places(callbacks: Mapping[str, Callback]) -> None:
    """Raise `Fault` CFG08 for two whose states would be stored in one place, such as savers of the same file."""
    keys = Counter(
        callback.state_key for callback in callbacks.values() if is_overridden("state_dict", callback, Callback)
    )
    for key, times in keys.items():
        if times > 1:
            names = [name for name, callback in callbacks.items() if callback.state_key == key]
            raise Fault(
                "CFG08",
                f"the callbacks {' and '.join(names)} would overwrite each other: both are {key}",
                where="lightning.callbacks",
                fix=f"lightning.callbacks.{names[-1]}.params.filename=another, or lightning.callbacks.{names[-1]}=null",
            )


def build_trainer(
    resolved: ResolvedRun,
    validates: bool,
    callbacks: list[Callback],
    loggers: list[Logger],
    run: Path,
    by_hand: tuple[str, ...] = (),
) -> Trainer:
    """The Trainer of a settled run; Lightning counts validation intervals in micro-batches.

    by_hand   arguments that the model carries out itself, so that Lightning must not
    """
    given = resolved.execution.trainer_arguments()
    settings = {name: value for name, value in given.items() if name not in by_hand} | {
        "max_steps": resolved.length.max_steps,
        "val_check_interval": resolved.length.val_every * resolved.window.accumulate,
    }
    if not validates:
        settings["limit_val_batches"] = 0
    if resolved.execution.settings.get("enable_progress_bar") is False:
        callbacks = [callback for callback in callbacks if not isinstance(callback, ProgressBar)]
    bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    return ProgramTrainer(
        **settings, callbacks=callbacks, logger=loggers or False, enable_progress_bar=bar, default_root_dir=str(run)
    )
