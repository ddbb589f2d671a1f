"""The plan of a start whose data is known: with its rate's course, time, files, captions and samples."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.models.model_parts import PartSize
from lun.callbacks.images import ImageLogger
from lun.plan.caption_lengths import caption_lengths
from lun.plan.disk_need import disk_need, require_writable
from lun.plan.plan import Amounts, Plan
from lun.plan.rate_course import rate_course
from lun.plan.step_time import measured_before

if TYPE_CHECKING:
    from lun.run.session import Session

log = logging.getLogger(__name__)

SHOWN = 2
"""Prompts that are shown word for word."""
LONGEST = 60
"""Characters of them."""
CACHE = "data.params.cache.folder"


def show_plan(session: Session) -> None:
    """Say what the run is going to do, as far as that is known before it begins."""
    for line in plan_lines(session):
        log.info("%s", line)
    session.data.describe()


def plan_lines(session: Session) -> list[str]:
    """All of it; the captions are looked at where nothing is trained yet, since training warns of those it cuts."""
    plan = plan_of(session)
    rows = [*plan.lines(), *(f"{label:<8} {text}" for label, text in outlook(session, plan.training_plan().parts))]
    return rows


def plan_of(session: Session) -> Plan:
    """What a person should know, with the numbers of this start."""
    data, window = session.data, session.run.window
    amounts = Amounts(
        n=data.n,
        n_validation=len(data.dataset("validation")) if data.has("validation") else None,
        batch_size=window.batch_size,
        accumulate=window.accumulate,
        devices=window.world_size,
        max_steps=session.run.length.max_steps,
        first_end=session.run.length.first_end,
    )
    return Plan(session.settings, len(session.arguments.overrides), session.model, amounts)


def outlook(session: Session, parts: list[PartSize]) -> Iterator[tuple[str, str]]:
    """What only a start with its data and callbacks knows."""
    run, model = session.run, session.model
    steps, logdir = run.length.max_steps, logdir_of(session)
    if course := rate_course(model.scheduler_config, run.learning_rate, steps):
        yield "", course
    measured = measured_before(session.settings.config, logdir)
    yield "time", measured.describe(steps) if measured else "unknown: no run in the log directory has such steps"
    if parts:
        need = disk_need(model, parts, run.execution.precision, session.callbacks, steps, logdir)
        yield "files", need.describe(session.arguments.logdir)
    if not session.arguments.train and (lengths := caption_lengths(model, session.data.dataset("train"))):
        yield "captions", lengths
    for callback in session.callbacks:
        if isinstance(callback, ImageLogger) and not callback.disabled:
            yield "samples", describe_samples(callback.prompts, callback.batch_frequency)


def describe_samples(prompts: list[str], every: int) -> str:
    """`every 225 steps: dog face, white background · cat face, red background · 22 more`."""
    shown = [prompt if len(prompt) <= LONGEST else f"{prompt[: LONGEST - 1]}…" for prompt in prompts[:SHOWN]]
    shown += [f"{len(prompts) - SHOWN} more"] if len(prompts) > SHOWN else []
    return f"every {every:,} steps: {' · '.join(shown) if shown else 'captions of the pictures at hand'}"


def require_places(session: Session) -> None:
    """Raise `Fault` DSK01 where the run, or its caches, could not be written."""
    if session.resume is None:
        require_writable(logdir_of(session), "--logdir")
    if session.data.cache and session.data.cache.folder:
        require_writable(Path(session.data.cache.folder).expanduser(), CACHE)


def logdir_of(session: Session) -> Path:
    """The folder of runs in which this one is, or will be."""
    return session.resume.run.path.parent if session.resume else Path(session.arguments.logdir)
