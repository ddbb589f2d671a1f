"""Optimizer, schedule and EMA built on a single number, so that what they refuse is told before anything is written."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from ldm.ema.schedule_free import is_schedule_free
from ldm.errors import Fault
from ldm.models.base import TrainedModel
from ldm.training.groups import require_settings
from ldm.training.rules import WHERE as RULES
from ldm.training.schedule import WHERE, Factors, factors_of, finished_at, longer
from ldm.util import Recipe, instantiate_from_config

log = logging.getLogger(__name__)

CHEAP = ("torch.optim.", "ldm.", "schedulefree.", "prodigyopt.", "transformers.optimization.")
"""What is built within no time; others may compile something first."""


def rehearse(model: TrainedModel, max_steps: int, global_batch: int) -> None:
    """Raise the `Fault` with which a run of `max_steps` steps would begin for settings that cannot be."""
    number, free = nn.Parameter(torch.zeros(1)), False
    with _in_silence():
        if _is_cheap(model.optimizer_config):
            optimizer = instantiate_from_config(model.optimizer_config, [number], lr=model.learning_rate)
            target = str(model.optimizer_config["target"])
            require_settings([rule.settings for rule in model.training_rules], optimizer.defaults, target)
            free = is_schedule_free(optimizer)
            if free and any("until" in rule.settings for rule in model.training_rules):
                raise _two_schedules(model.optimizer_config, f"{RULES}.*.until")
        _require_effect(model)
        if model.scheduler_config is not None and _is_cheap(model.scheduler_config):
            factors = factors_of(model.scheduler_config, [model.learning_rate])
            if free and _falls(factors, max_steps):
                raise _two_schedules(model.optimizer_config, WHERE)
        if model.use_ema and _is_cheap(model.ema_config):
            length = {"total_steps": max_steps if max_steps > 0 else None, "examples_per_step": global_batch}
            instantiate_from_config(model.ema_config, {"number": number}, **length)


def warn_if_finished(model: TrainedModel, step: int, max_steps: int) -> None:
    """Say so if the schedule ends, at a rate of 0, before a run does that goes on from `step`."""
    if model.scheduler_config is None or not model.learning_rate:
        return
    with _in_silence(logging.INFO):
        found = finished_at(model.scheduler_config, model.learning_rate, step, max_steps)
    if found is not None:
        log.warning("warning[TRN04]: the learning rate is 0 from step %d of %d on: nothing is learnt", found, max_steps)
        log.warning("  fix:   %s, or %s=null for a constant rate", longer(model.scheduler_config, max_steps), WHERE)


def _falls(factors: Factors, max_steps: int) -> bool:
    looked_at = [factors(max_steps * part // 16)[0] for part in range(17)] if max_steps > 0 else [1.0]
    return looked_at[-1] < max(looked_at)


def _require_effect(model: TrainedModel) -> None:
    """Raise the `Fault` of a rule, or of adapters, that would do nothing to these networks, built without memory."""
    if not model.training_rules and model.adapter_config is None:
        return
    try:
        model.training_plan()
    except Fault as fault:
        if not fault.id.startswith("MOD"):  # what a network lacks is told where weights are asked for
            raise


def _two_schedules(recipe: Recipe, where: str) -> Fault:
    return Fault(
        "CFG08",
        f"{recipe['target']} takes the place of a schedule that falls",
        where=where,
        why="a schedule-free optimizer averages instead of slowing down; with both the last steps count for nothing",
        fix=f"{WHERE}=null, or a warm-up alone: {WHERE}.target=ldm.lr_scheduler.WarmupConstant",
    )


def _is_cheap(recipe: Recipe) -> bool:
    return str(recipe.get("target", "")).startswith(CHEAP)


@contextmanager
def _in_silence(level: int = logging.WARNING) -> Iterator[None]:
    """What is said now would be said again when they are built in earnest."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        yield
    finally:
        logging.disable(before)
