"""Build Lightning's Trainer: the program's own callbacks around the user's, defaults under what the config says."""

import inspect
import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Callback, Trainer
from lightning.pytorch.callbacks import ProgressBar
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities.model_helpers import is_overridden

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.util import Recipe, instantiate_from_config, is_recipe
from lun.run.length import Length
from lun.run_dir.first_rank import FirstRank
from lun.strategies.choice import with_strategy
from lun.strategies.devices import asked
from lun.strategies.plugin import with_precision

# Lightning sees one endless epoch: it neither counts epochs, nor cuts batches to ranks, nor saves by itself.
OURS: Mapping[str, Any] = {
    "max_epochs": -1,
    "check_val_every_n_epoch": None,
    "use_distributed_sampler": False,
    "enable_checkpointing": False,
}
QUIET: Mapping[str, Any] = {"enable_model_summary": False}
NOT_PASSED_ON = ("max_steps", "max_epochs", "val_check_interval", "enable_progress_bar")


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
            fix="LUN_TORCH=cuda bash scripts/setup.sh --reinstall-torch    (AMD: LUN_TORCH=rocm)\n"
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


def build_loggers(recipes: Mapping[str, Recipe | None], run: Path) -> list[Logger]:
    """The configured loggers, writing below the run directory unless they say where."""
    return [_build_logger(recipe, run) for recipe in recipes.values() if recipe is not None]


def _build_logger(recipe: Recipe, run: Path) -> Logger:
    names = inspect.signature(admitted(recipe["target"])).parameters
    places = {name: str(run) for name in ("save_dir", "root_dir") if name in names}
    params = places | dict(recipe.get("params") or {})
    logger: Logger = instantiate_from_config({"target": recipe["target"], "params": params})
    return logger


def find_ranks(config: Mapping[str, Any]) -> tuple[int, FirstRank]:
    """How many processes will train, for any spelling of devices and nodes, and how rank 0 reaches the others.

    Lightning is asked; nothing is written or started. Raises `Fault` CFG08 or DEV03 for settings that it refuses.
    """
    trainer = asked(**_settings(config))
    cluster = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or cluster is None:
        return trainer.world_size, FirstRank()
    elsewhere = cluster.creates_processes_externally or trainer.num_nodes > 1
    return trainer.world_size, FirstRank((cluster.main_address, cluster.main_port) if elsewhere else None)


def require_numbers(config: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG08 for numbers with which training would be nonsense, such as a clipping that turns gradients
    around."""
    for name, holds, allowed in (
        ("accumulate_grad_batches", lambda number: number >= 1, "1 or more"),
        ("gradient_clip_val", lambda number: number >= 0, "0 (off) or more"),
        ("val_check_interval", lambda number: number > 0, "a number of steps, or a share of an epoch, above 0"),
        ("log_every_n_steps", lambda number: number >= 0, "0 (never) or more"),
    ):
        value = config.get(name)
        if isinstance(value, int | float) and not (math.isfinite(value) and holds(value)):
            raise Fault("CFG08", f"lightning.trainer.{name} cannot be {value}", why=f"it takes {allowed}")


def build_trainer(
    config: Mapping[str, Any],
    length: Length,
    validates: bool,
    callbacks: list[Callback],
    loggers: list[Logger],
    run: Path,
    by_hand: tuple[str, ...] = (),
) -> Trainer:
    """The Trainer of a run of this length; Lightning counts validation intervals in micro-batches.

    by_hand   arguments that the model carries out itself, so that Lightning must not
    """
    settings = {name: value for name, value in _settings(config).items() if name not in by_hand} | {
        "max_steps": length.max_steps,
        "val_check_interval": length.val_every * config.get("accumulate_grad_batches", 1),
    }
    if not validates:
        settings["limit_val_batches"] = 0
    if config.get("enable_progress_bar") is False:
        callbacks = [callback for callback in callbacks if not isinstance(callback, ProgressBar)]
    bar = any(isinstance(callback, ProgressBar) for callback in callbacks)
    return Trainer(
        **settings, callbacks=callbacks, logger=loggers or False, enable_progress_bar=bar, default_root_dir=str(run)
    )


def _settings(config: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in config.items() if name not in NOT_PASSED_ON}
    built = {name: _object(value) for name, value in with_precision(with_strategy(given)).items()}
    return {**QUIET, **built, **OURS}


def _object(value: Any) -> Any:
    """Recipes (strategy, profiler, plugins) as what they stand for."""
    if isinstance(value, list):
        return [_object(entry) for entry in value]
    return instantiate_from_config(value) if is_recipe(value) else value
