"""What settings alone decide: built for every start, and for `--check`, before pictures, weights or a device are asked.

A setting that no folder, file or machine could mend is refused here, so that `--check` says what a start would say.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.lightning_classes import Callback
from ldm.models.base import TrainedModel
from ldm.models.rehearsal import rehearse
from ldm.util import Recipe, instantiate_from_config
from lun.callbacks.compute.block_swap import require_uncompiled
from lun.callbacks.compute.compiled_blocks import CompiledBlocks
from lun.callbacks.compute.fused_backward import FusedBackward
from lun.callbacks.named import build_callbacks
from lun.cli.user_code import warn_of_unused
from lun.config.suggestions import FaultCollector
from lun.console import log as console
from lun.data.cache.latents.ways import require_effect, require_variants
from lun.data.module import DataModuleFromConfig
from lun.data.order.picture_sides import require_sides
from lun.data.sets.carried_out import require_carried_out
from lun.run.build_model import build_model
from lun.run.fill_caches import require_lasting_captions
from lun.run.length import Length, known_length
from lun.run.missing_here import OPTIMIZER, can_be_left_out, places_of_lacking, without
from lun.run.rate import rate_of
from lun.run.resolved import resolve, window_of
from lun.run.settings import Settings
from lun.run_dir.ranks import process_rank
from lun.strategies.combinations import strategy_kind
from lun.strategies.execution import Execution, settle_execution_anywhere
from lun.strategies.master import require_master
from lun.strategies.optimizers import require_stepping, require_whole_base, require_whole_weights

ELSEWHERE = "DEV01"
"""Of a device that this machine lacks: another may have it."""


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


def judge(settings: Settings, has_time_limit: bool, resumed: bool) -> list[Fault]:
    """Every `Fault` that a start would meet for these settings on any machine, with any pictures and weights, and those
    of packages and files that the settings name and that are not here (`lun.run.missing_here.is_lacking`).

    What needs a package that is not installed is left out as far as a run can do without; the rest is judged.
    """
    console.configure(None, process_rank())  # libraries brought handlers of their own with their imports
    lacking = places_of_lacking(settings.config)
    if not all(map(can_be_left_out, lacking)):
        return []
    settings = settings.with_config(**without(settings.config, sorted(lacking)))
    trainer, faults = settings.trainer(), FaultCollector()
    steps = faults.collect(lambda: known_length(trainer, has_time_limit))
    on_cpu = trainer.get("accelerator") == "cpu"
    parts = faults.collect(lambda: build_parts(settings, settle_execution_anywhere, on_cpu))
    if parts is not None and not resumed:
        faults.collect(lambda: parts.model.require_weights(files=False))
    if parts is not None and steps is not None:
        faults.collect(lambda: _rehearse(parts, settings, steps, with_optimizer=OPTIMIZER not in lacking))
    return [fault for fault in faults.faults if fault.id != ELSEWHERE]


def _rehearse(parts: RunParts, settings: Settings, steps: int, with_optimizer: bool) -> None:
    window = window_of(parts.execution, parts.data.batch_size)
    config, length = settings.config, Length(steps, val_every=1)
    run = resolve(config, parts.execution, window, length, config.get("seed") or 0)
    parts.model.begin(run.context(resumed=False))
    rehearse(parts.model, steps, window.global_batch, with_optimizer)
    require_lasting_captions(parts.model, parts.data.cache)
    require_carried_out(parts.model, parts.data.mix_settings, strategy_kind(settings.trainer().get("strategy")))


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
