"""What settings alone decide: built for every start, and for `--check`, before pictures, weights or a device are asked.

A setting that no folder, file or machine could mend is refused here, so that `--check` says what a start would say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ldm.admission import admitted
from ldm.lightning_classes import Callback
from ldm.models.base import TrainedModel
from ldm.util import Recipe, instantiate_from_config
from lun.callbacks.compute.block_swap import require_uncompiled
from lun.callbacks.compute.compiled_blocks import CompiledBlocks
from lun.callbacks.compute.fused_backward import FusedBackward
from lun.callbacks.named import build_callbacks
from lun.cli.user_code import warn_of_unused
from lun.config.suggestions import FaultCollector
from lun.data.cache.latents.ways import require_effect, require_variants
from lun.data.module import DataModuleFromConfig
from lun.data.order.picture_sides import require_sides
from lun.run.build_model import build_model
from lun.run.rate import rate_of
from lun.run.settings import Settings
from lun.strategies.execution import Execution
from lun.strategies.master import require_master
from lun.strategies.optimizers import require_stepping, require_whole_base, require_whole_weights


@dataclass(frozen=True)
class RunParts:
    """Everything of a run that needs neither pictures nor weights to be built."""

    execution: Execution
    callbacks: list[Callback]
    data: DataModuleFromConfig
    model: TrainedModel


def build_parts(settings: Settings, settle: Callable[[Mapping[str, Any]], Execution], on_cpu: bool) -> RunParts:
    """Callbacks, data module and model, and where they compute as `settle` has it; `on_cpu`: there is no other device.

    Raises every `Fault` of the settings, an ExceptionGroup of several.
    """
    config, trainer, faults = settings.config, settings.trainer(), FaultCollector()
    execution = faults.collect(lambda: settle(trainer))
    faults.collect(lambda: admitted(config["model"]["target"]).refuse_trainer(trainer))
    faults.collect(lambda: require_stepping(config["model"], on_cpu))
    faults.collect(lambda: require_whole_weights(config["model"], trainer.get("strategy")))
    faults.collect(lambda: require_whole_base(config["model"], trainer.get("strategy")))
    callbacks = faults.collect(lambda: build_callbacks(settings.lightning("callbacks")))
    faults.collect(lambda: require_uncompiled(callbacks or ()))
    data = faults.collect(lambda: _data(config["data"]))
    model = faults.collect(lambda: _model(config))
    if model is not None:
        faults.collect(lambda: require_sides(model.side_unit(), config["data"]))
    if model is not None and execution is not None:
        faults.collect(lambda: require_master(model, trainer.get("precision")))
        for callback in callbacks or ():
            faults.collect(partial(_require_run, callback, model, execution, on_cpu))
            if isinstance(callback, FusedBackward | CompiledBlocks):
                faults.collect(partial(callback.require_whole_steps, execution, model, callbacks or []))
    faults.raise_all()
    warn_of_unused(config)
    assert execution is not None and callbacks is not None and data is not None and model is not None
    return RunParts(execution, callbacks, data, model)


def _data(recipe: dict[str, Any]) -> DataModuleFromConfig:
    data: DataModuleFromConfig = instantiate_from_config(recipe)
    if not data.has("train"):
        data.dataset("train")  # says so
    for one in data.all_recipes():
        kind = admitted(one["target"])
        if hasattr(kind, "require_settings"):
            kind.require_settings(one.get("params") or {})
    if data.cache is not None:
        _require_variants(data.cache.variants, data.all_recipes())
    return data


def _require_variants(variants: int, recipes: Sequence[Recipe]) -> None:
    """Raise `Fault` CFG08 for a cache that does not suit its sets, as far as their params show."""
    kinds = [(admitted(one["target"]), one.get("params") or {}) for one in recipes]
    varied = [kind.varies(params) if hasattr(kind, "varies") else None for kind, params in kinds]
    require_variants(variants, any(varied))
    if None not in varied:  # a set of one's own says so when it is built
        require_effect(variants, [bool(one) for one in varied])


def _require_run(callback: Callback, model: TrainedModel, execution: Execution, on_cpu: bool) -> None:
    """Raise the `Fault` of a callback that has no place in this run."""
    stands_in = execution.device == "cpu" and not on_cpu  # for a device that is not known here
    if hasattr(callback, "require_run"):
        callback.require_run(model, execution.kind, None if stands_in else execution.device)


def _model(config: Mapping[str, Any]) -> TrainedModel:
    rate_of(config["model"])
    return build_model(config)
