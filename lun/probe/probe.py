"""A run in small: the largest bucket's steps, samples, a batch of validation, a save, and a resume from it."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ldm.admission import admitted
from ldm.errors import Fault
from lun.callbacks.checkpointing import Checkpoint
from lun.callbacks.export import Export
from lun.callbacks.images import ImageLogger
from lun.callbacks.space import files_kept
from lun.checkpoints.checkpoint_files import size_on_disk
from lun.console import log as console
from lun.plan.disk_need import DiskNeed, existing
from lun.plan.fixed_memory import GIB
from lun.plan.memory_room import Room
from lun.plan.step_time import duration
from lun.probe.meter import ProbeMeter, Readings
from lun.run.length import NO_LIMIT
from lun.run.session import Session
from lun.run.settings import Settings
from lun.run_dir.directory import LATEST, VARIABLE
from lun.run_dir.ranks import process_rank
from lun.run_dir.resume import find_checkpoint

log = logging.getLogger(__name__)

STEPS = 3
FOLDER = ".lun-probe-"
LOOKED_AT = 4096
"""Batches among which that of the largest pictures is looked for."""
ONCE = 10**9
"""Steps between two drawings, so that the first is the only one besides the last."""


@dataclass(frozen=True)
class Rehearsed:
    """What came of it: seconds of saving and of a resume, and bytes of the checkpoint."""

    readings: Readings
    saving: float
    reload: float
    checkpoint: int


def probe(session: Session) -> int:
    """Rehearse the run that `session` is the start of; returns the exit code. Nothing of it stays.

    Raises `Fault` CLI02 for several devices, and whatever the run would.
    """
    if session.run.execution.ranks.count > 1:
        why = "it measures what one device does"
        raise Fault("CLI02", "--probe cannot rehearse a run on several devices", why=why, fix="--probe --devices 1")
    if session.data.cache:
        log.info("note: the rehearsal fills no cache, so that it encodes as it goes and takes more than the run")
    settings = in_small(session.settings)
    with temporary_folder(Path(session.arguments.logdir)) as folder:
        log.info("probe    %d steps, samples, validation, a save and a resume; nothing of it stays", STEPS)
        free = shutil.disk_usage(folder).free
        found = _rehearsed(session, settings, folder)
    if isinstance(found, int):
        log.info("stopped  before all was measured; nothing of it stays")
        return found
    for line in report_lines(found, session, free):
        log.info("%s", line)
    return 0


def _rehearsed(session: Session, settings: Settings, folder: Path) -> Rehearsed | int:
    """What was measured, or the exit code of what was stopped."""
    arguments = replace(session.arguments, logdir=str(folder), train=True, name="probe", postfix="")
    slot, meter = slot_of_largest(session), ProbeMeter()
    with _quietly():
        first = Session.prepare(settings, arguments, None)
        first = replace(first, callbacks=[*first.callbacks, meter])
        first.model.position.slot = slot
        if code := first.fit([]):
            return code
        saving = time.monotonic() - meter.readings.ended
        del first
        gc.collect()
        began = time.monotonic()
        resume = find_checkpoint(str(folder / LATEST))
        again = Session.prepare(_longer(settings), replace(arguments, name=None, resume=str(folder / LATEST)), resume)
        if code := again.fit([]):
            return code
        reload = time.monotonic() - began
        return Rehearsed(meter.readings, saving, reload, size_on_disk(resume.checkpoint))


def in_small(settings: Settings) -> Settings:
    """The settings of the rehearsal: a few steps at the full rate, and no writer but the last checkpoint's."""
    config = settings.config
    lightning = dict(config.get("lightning") or {})
    trainer = {**settings.lightning("trainer"), "max_steps": STEPS, "max_epochs": -1, "val_check_interval": STEPS}
    trainer |= {"limit_val_batches": 1, "num_sanity_val_steps": 0}
    callbacks = {name: _callback(recipe) for name, recipe in settings.lightning("callbacks").items()}
    model, data = dict(config["model"]), dict(config["data"])
    for section, setting in ((model, "scheduler_config"), (data, "cache")):
        params = section.get("params") or {}
        section["params"] = {**params, **({setting: None} if setting in params else {})}
    lightning |= {"trainer": trainer, "callbacks": callbacks, "logger": {}}
    return settings.with_config(model=model, data=data, lightning=lightning)


def _callback(recipe: Any) -> Any:
    if not recipe:
        return None
    kind = admitted(recipe["target"])
    if isinstance(kind, type) and issubclass(kind, Checkpoint | Export):
        return None
    if kind is ImageLogger:
        return {**recipe, "params": {**(recipe.get("params") or {}), "batch_frequency": ONCE}}
    return recipe


def _longer(settings: Settings) -> Settings:
    lightning = dict(settings.config["lightning"])
    lightning["trainer"] = {**lightning["trainer"], "max_steps": STEPS + 1}
    return settings.with_config(lightning=lightning)


def slot_of_largest(session: Session) -> int:
    """Where the first batch of the largest pictures begins in the order of the run."""
    if session.data.buckets is None:
        return 0
    law, batch = session.data.law(), session.run.window.global_batch
    places = [law.beginning(number * batch) for number in range(min(LOOKED_AT, law.n // batch + 1))]
    return max(places, key=lambda place: _pixels(law.key(place).size))


def _pixels(size: tuple[int, int] | None) -> int:
    return size[0] * size[1] if size else 0


@contextmanager
def temporary_folder(logdir: Path) -> Iterator[Path]:
    """A folder on the disk of `logdir` for runs, which goes at the end with all that lies in it, however that comes.

    What else speaks of the run in this process goes as well.
    """
    before = os.environ.pop(VARIABLE, None)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER, dir=existing(logdir)))
    try:
        yield folder
    finally:
        console.configure(None, process_rank())  # closes the file of the run's messages
        shutil.rmtree(folder, ignore_errors=True)
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what runs say of themselves, as where they write; warnings are said."""
    before = logging.root.manager.disable
    logging.disable(logging.INFO)
    try:
        yield
    finally:
        logging.disable(before)


def report_lines(found: Rehearsed, session: Session, free: int) -> Iterator[str]:
    """The lines that say what was measured, and what it means for the run."""
    readings, steps = found.readings, session.run.length.max_steps
    batch = f", a batch of validation {readings.validation[0]:.2g} s" if readings.validation else ""
    step = readings.seconds_a_step
    yield f"time     {step:.2g} s a step, {readings.before:.2g} s before the first, samples among it{batch}"
    if steps != NO_LIMIT:
        yield f"         {steps:,} steps are {duration(steps * step)} without samples, validation and saves"
    for what, peak in readings.peaks.items():
        room = Room.found("cuda")
        yield f"memory   {peak / GIB:.2f} GiB at most for {what}" + (f", of {room.total / GIB:.1f}" if room else "")
    yield f"memory   {readings.resident:.2f} GiB of main memory"
    yield f"saving   {found.saving:.2g} s; a resume with one more step {found.reload:.2g} s"
    kept = files_kept(session.callbacks, steps if steps > 0 else None)
    yield f"files    {DiskNeed(found.checkpoint, kept, free).describe(str(session.arguments.logdir))}"
