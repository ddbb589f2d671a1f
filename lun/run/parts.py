"""What settings alone decide: built for every start, and for `--check`, before pictures, weights or a device are asked.

A setting that no folder, file or machine could mend is refused here, so that `--check` says what a start would say.
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lightning.pytorch import Callback

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.models.base import TrainedModel
from ldm.models.rehearsal import rehearse
from ldm.util import instantiate_from_config
from lun.cli.user_code import tell_unused
from lun.config.errors import raise_all
from lun.console import log as console
from lun.data.module import DataModuleFromConfig
from lun.run.length import fill_horizon, known_length
from lun.run.rate import rate_of, scaled_rate
from lun.run.settings import Settings
from lun.run.trainer import build_callbacks, find_ranks, require_numbers
from lun.run_dir.ranks import process_rank
from lun.strategies.choice import require_strategy, with_strategy
from lun.strategies.plugin import require_precision
from lun.strategies.stepping import require_stepping, require_whole_weights

T = TypeVar("T")
ELSEWHERE = "DEV01"
"""Of a device that this machine lacks: another may have it."""


@dataclass(frozen=True)
class RunParts:
    """Everything of a run that needs neither pictures nor weights to be built."""

    callbacks: list[Callback]
    data: DataModuleFromConfig
    model: TrainedModel


def build_parts(settings: Settings, trainer: Mapping[str, Any], on_cpu: bool) -> RunParts:
    """Callbacks, data module and model; `trainer` are the arguments of a Trainer, `on_cpu` whether it has no other
    device. Raises every `Fault` of the settings, an ExceptionGroup of several.
    """
    config, tried = settings.config, _Tried()
    tried(lambda: require_strategy(trainer))
    tried(lambda: require_precision(with_strategy(trainer), on_cpu))
    tried(lambda: require_numbers(trainer))
    tried(lambda: admitted(config["model"]["target"]).refuse_trainer(trainer))
    tried(lambda: require_stepping(config["model"], on_cpu))
    tried(lambda: require_whole_weights(config["model"], trainer))
    callbacks = tried(lambda: build_callbacks(settings.lightning("callbacks")))
    data = tried(lambda: _data(config["data"]))
    model = tried(lambda: _model(config["model"]))
    raise_all(tried.faults)
    tell_unused(config)
    assert callbacks is not None and data is not None and model is not None
    return RunParts(callbacks, data, model)


def judge(settings: Settings, has_time_limit: bool) -> None:
    """Raise every `Fault` that a start would meet for these settings on any machine, with any pictures and weights."""
    console.configure(None, process_rank())  # Lightning brought a handler of its own with its import
    settings = replace(settings, config=deepcopy(settings.config))
    trainer = settings.trainer()
    on_cpu = trainer.get("accelerator") == "cpu"
    anywhere = {**trainer, "accelerator": "cpu", "devices": 1, "num_nodes": 1}
    tried = _Tried()
    length = tried(lambda: known_length(trainer, has_time_limit))
    parts = tried(lambda: build_parts(settings, anywhere, on_cpu))
    if parts is not None and length is not None:
        tried(lambda: _rehearse(parts, settings.config["model"], anywhere, length))
        tried(lambda: find_ranks(anywhere if on_cpu else {**anywhere, "precision": "32-true"}))
    raise_all([fault for fault in tried.faults if fault.id != ELSEWHERE])


def _rehearse(parts: RunParts, model: dict[str, Any], trainer: Mapping[str, Any], steps: int) -> None:
    global_batch = parts.data.batch_size * trainer.get("accumulate_grad_batches", 1)
    fill_horizon(model.get("params", {}).get("scheduler_config"), steps)
    parts.model.learning_rate = scaled_rate(*rate_of(model), global_batch)
    rehearse(parts.model, steps, global_batch)


def _data(recipe: dict[str, Any]) -> DataModuleFromConfig:
    data: DataModuleFromConfig = instantiate_from_config(recipe)
    if not data.has("train"):
        data.dataset("train")  # says so
    for one in data.recipes.values():
        kind = admitted(one["target"])
        if hasattr(kind, "require_settings"):
            kind.require_settings(one.get("params") or {})
    return data


def _model(recipe: dict[str, Any]) -> TrainedModel:
    rate_of(recipe)
    model: TrainedModel = instantiate_from_config(recipe)
    return model


class _Tried:
    """Calls one thing after another and keeps their faults."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def __call__(self, build: Callable[[], T]) -> T | None:
        try:
            return build()
        except Fault as fault:
            self.faults.append(fault)
        except ExceptionGroup as group:
            if not all(isinstance(error, Fault) for error in group.exceptions):
                raise
            self.faults += [error for error in group.exceptions if isinstance(error, Fault)]
        return None
