"""The faults that show only where what the settings describe is built; this imports torch."""

from ldm.errors import Fault
from ldm.models.rehearsal import rehearse
from lun.check.missing_here import OPTIMIZER, can_be_left_out, places_of_lacking, without
from lun.config.suggestions import FaultCollector
from lun.console import log as console
from lun.data.sets.carried_out import require_carried_out
from lun.run.construction import RunParts, build_parts
from lun.run.fill_caches import require_lasting_captions
from lun.run.length import Length, known_length
from lun.run.resolved import resolve, window_of
from lun.run.settings import Settings
from lun.run_dir.ranks import process_rank
from lun.strategies.combinations import strategy_kind
from lun.strategies.execution import settle_execution_anywhere

ELSEWHERE = "DEV01"
"""Of a device that this machine lacks: another may have it."""


def construction_faults(settings: Settings, has_time_limit: bool, resumed: bool) -> list[Fault]:
    """Every `Fault` that a start would meet for these settings on any machine, with any pictures and weights, and those
    of packages and files that the settings name and that are not here (`lun.check.missing_here.is_lacking`).

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
