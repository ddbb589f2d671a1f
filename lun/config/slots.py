"""What each place of a config accepts: a Callback, a Logger, a Dataset, ..."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ldm.admission import definition, is_kind


@dataclass(frozen=True)
class Slot:
    """A place for a recipe: the kind of object it takes in words, a test of the object, and keys beside `params`.

    `supplied`: parameters that the run fills in, so that the recipe may leave them out; `complete` is false where the
    owner adds parameters of its own, so that nothing is missing.
    """

    kind: str = "a class or function"
    test: Callable[[Any], bool] = callable
    beside: tuple[str, ...] = ()
    supplied: frozenset[str] = frozenset()
    complete: bool = True


def _class_of(*kinds: str) -> Callable[[Any], bool]:
    names = frozenset(kinds)
    return lambda value: is_kind(value, names)


def _is_dataset(value: Any) -> bool:
    """A function of ours may build one; a class has to look like one."""
    if not inspect.isclass(value):
        return callable(value)
    return hasattr(value, "__len__") and (hasattr(value, "__getitem__") or hasattr(value, "example"))


def _is_optimizer(value: Any) -> bool:
    return not inspect.isclass(value) or hasattr(value, "step")


TORCH_SCHEDULE = "torch.optim.lr_scheduler.LRScheduler"
WAITS_FOR_A_METRIC = "torch.optim.lr_scheduler.ReduceLROnPlateau"


def is_torch_schedule(value: Any) -> bool:
    """Whether it is a class that sets the rates of an optimizer which it is given."""
    return is_kind(value, frozenset({TORCH_SCHEDULE}))


def _is_schedule(value: Any) -> bool:
    if is_kind(value, frozenset({WAITS_FOR_A_METRIC})):
        return False
    return not inspect.isclass(value) or is_torch_schedule(value) or "__call__" in dir(value)


MODEL = Slot(
    "a LightningModule",
    _class_of("lightning.pytorch.core.module.LightningModule", "ldm.lightning_module.LightningModule"),
    beside=("base_learning_rate", "scale_lr"),
)
DATA = Slot(
    "a LightningDataModule",
    _class_of("lightning.pytorch.core.datamodule.LightningDataModule", "ldm.lightning_classes.LightningDataModule"),
)
CALLBACK = Slot(
    "a Callback", _class_of("lightning.pytorch.callbacks.callback.Callback", "ldm.lightning_classes.Callback")
)
LOGGER = Slot(
    "a Logger",
    _class_of("lightning.pytorch.loggers.logger.Logger"),
    supplied=frozenset({"save_dir", "name", "version"}),
)
DATASET = Slot(
    "a dataset (a class with __len__ and __getitem__ or example)", _is_dataset, beside=("dataloader_params",)
)
SET = Slot(DATASET.kind, _is_dataset)
"""One of several sets of training, which share the settings of their loader."""
OPTIMIZER = Slot("an optimizer (a class with step, or a function that makes one)", _is_optimizer, complete=False)
SCHEDULE = Slot(
    "a schedule that follows the step alone (step -> factor, or a class of torch.optim.lr_scheduler)",
    _is_schedule,
    supplied=frozenset({"optimizer", "total_steps"}),
)
OWNED = Slot(complete=False)
ANY = Slot()

DATASETS = ("train", "validation", "test", "predict")


def slot_of_parameter(name: str, otherwise: Slot) -> Slot:
    """The slot that a parameter's name says: what ends in `config` is built, and completed, by its owner."""
    if name == "optimizer_config":
        return OPTIMIZER
    if name in ("scheduler_config", "schedule"):
        return SCHEDULE
    return OWNED if name.endswith("config") else otherwise


def slot_of_annotation(annotation: Any) -> Slot | None:
    """The slot of a parameter that is annotated with a class, or None where the annotation names no one class."""
    if not inspect.isclass(annotation) or annotation.__module__ in ("builtins", "collections.abc", "typing"):
        return None
    if getattr(annotation, "_is_protocol", False):
        return None
    kinds = frozenset({definition(annotation)})  # by name: one of both may be known from its source alone
    return Slot(f"a {annotation.__name__}", lambda value: not inspect.isclass(value) or is_kind(value, kinds))
