"""Optimizer, schedule and EMA built on a single number, so that what they refuse is known before a file is written."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import replace
from typing import Any, cast

import torch
from torch import nn
from torch.optim import Optimizer

from ldm.ema.schedule_free import is_schedule_free, not_beside_ema
from ldm.errors import Fault
from ldm.models.base import TrainedModel
from ldm.remembered import remembered
from ldm.training.groups import Group, require_settings
from ldm.training.rules import WHERE as RULES
from ldm.training.schedule import WHERE, Factors, factors_of, finished_at, longer, schedule_for
from ldm.util import Recipe, instantiate_from_config

log = logging.getLogger(__name__)

CHEAP = ("torch.optim.", "ldm.", "schedulefree.", "prodigyopt.", "pytorch_optimizer.", "transformers.optimization.")
"""What is built within no time; others may compile something first."""


def rehearse(model: TrainedModel, max_steps: int, global_batch: int, with_optimizer: bool = True) -> None:
    """Raise the `Fault` with which a run of `max_steps` steps would begin for settings that cannot be.

    with_optimizer   whether the optimizer is built, too
    """
    number = nn.Parameter(torch.zeros(1))
    with _in_silence():
        groups = _groups(model) or [Group("", {}, [number])]
        free = with_optimizer and _is_cheap(model.optimizer_config) and _steps_free(model, groups, max_steps)
        if free and model.use_ema:
            raise not_beside_ema(str(model.optimizer_config["target"]))
        for where, recipe in _schedules(model):
            factors = factors_of(recipe, [model.learning_rate])
            if free and _falls(factors, max_steps):
                raise _two_schedules(model.optimizer_config, where)
        if model.use_ema and _is_cheap(model.ema_config):
            length = {"total_steps": max_steps if max_steps > 0 else None, "examples_per_step": global_batch}
            instantiate_from_config(model.ema_config, {"number": number}, **length)


def warn_if_finished(model: TrainedModel, step: int, max_steps: int) -> None:
    """Say so if the schedule ends, at a rate of 0, before a run does that goes on from `step`."""
    if model.scheduler_config is None or not model.learning_rate:
        return
    with _in_silence(logging.INFO):
        finished = finished_at(model.scheduler_config, model.learning_rate, step, max_steps)
    if finished is not None:
        log.warning(
            "warning[TRN04]: the learning rate is 0 from step %d of %d on: nothing is learned", finished, max_steps
        )
        log.warning("  fix:   %s, or %s=null for a constant rate", longer(model.scheduler_config, max_steps), WHERE)


def _schedules(model: TrainedModel) -> Iterator[tuple[str, Recipe]]:
    """Where the run's schedule and those of rules stand, and the schedules."""
    ruled = ((f"{rule.where}.schedule", rule.settings.get("schedule")) for rule in model.training_rules)
    for where, recipe in ((WHERE, model.scheduler_config), *ruled):
        if recipe is not None and _is_cheap(recipe):
            yield where, recipe


def _falls(factors: Factors, max_steps: int) -> bool:
    looked_at = [factors(max_steps * part // 16)[0] for part in range(17)] if max_steps > 0 else [1.0]
    return looked_at[-1] < max(looked_at)


def _groups(model: TrainedModel) -> list[Group]:
    """The groups that will train, of networks built without memory, a small parameter for each number of axes in them.

    Raises the `Fault` of a rule, or of adapters, that would do nothing.
    """
    try:
        planned = model.training_plan().groups
    except Fault as fault:
        if not fault.id.startswith("MOD"):  # what a network lacks is reported where weights are asked for
            raise
        return []
    axes = [sorted({weight.ndim for weight in group.parameters}) for group in planned]
    return [
        replace(group, parameters=[nn.Parameter(torch.zeros((1,) * number)) for number in numbers])
        for group, numbers in zip(planned, axes, strict=True)
    ]


def _steps_free(model: TrainedModel, groups: list[Group], max_steps: int) -> bool:
    """Whether the optimizer is schedule-free, if it can step these groups, as is remembered of one that could."""
    bent = _bent(groups, max_steps)
    settings = {
        "optimizer": model.optimizer_config,
        "rate": model.learning_rate,
        "groups": [[repr(group.settings), [weight.ndim for weight in group.parameters]] for group in groups],
        "rules": [repr(rule.settings) for rule in model.training_rules],
        "length": [max_steps, model.scheduler_config] if bent else None,
    }
    return bool(remembered("optimizer", settings, lambda: _rehearse_optimizer(model, groups, max_steps)))


def _bent(groups: list[Group], max_steps: int) -> bool:
    """Whether rules bend the rates of groups over a run whose length is known."""
    return any("schedule" in group.settings for group in groups) and max_steps > 0


def _rehearse_optimizer(model: TrainedModel, groups: list[Group], max_steps: int) -> bool:
    """Build the optimizer of these groups, and step it at rates of the run; whether it is schedule-free."""
    given = [group.for_optimizer(model.learning_rate) for group in groups]
    optimizer = instantiate_from_config(model.optimizer_config, given, lr=model.learning_rate)
    rules = [rule.settings for rule in model.training_rules]
    require_settings(rules, optimizer.defaults, str(model.optimizer_config["target"]))
    free = is_schedule_free(optimizer)
    if free and any("until" in settings for settings in rules):
        raise _two_schedules(model.optimizer_config, f"{RULES}.*.until")
    if free:
        cast(Any, optimizer).train()
    _require_step(optimizer, model, groups, max_steps)
    return free


def _require_step(optimizer: Optimizer, model: TrainedModel, groups: list[Group], max_steps: int) -> None:
    """Raise `Fault` CFG08 if it cannot step these groups at their rates; where rules bend those, at several times."""
    rates = [float(group["lr"]) for group in optimizer.param_groups]
    bent = _bent(groups, max_steps)
    own = [group.schedule(model.scheduler_config if bent else None, lambda: 1) for group in groups]
    moves = schedule_for(optimizer, own).lr_lambdas
    for group in optimizer.param_groups:
        group |= {"capturable": False} if "capturable" in group else {}  # of graphs on a GPU, and this is a CPU
        for weight in group["params"]:
            weight.grad = torch.zeros_like(weight)
    for step in [max_steps * part // 8 for part in range(8)] if bent else [0]:
        for group, rate, move in zip(optimizer.param_groups, rates, moves, strict=True):
            group["lr"] = rate * move(step)
        try:
            optimizer.step()
        except (RuntimeError, ValueError, TypeError, LookupError, AssertionError, ArithmeticError) as error:
            raise _no_step(model.optimizer_config, error) from error


def _no_step(recipe: Recipe, error: Exception) -> Fault:
    return Fault(
        "CFG08",
        f"{recipe['target']} cannot train what it is given",
        where=f"model.params.optimizer_config, {RULES}",
        why=f"{type(error).__name__}: {error}",
        fix="model.params.optimizer_config.target=torch.optim.AdamW, or rules that fit it",
    )


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
    """What is said now, some optimizers print it, would be said again when they are built in earnest."""
    before = logging.root.manager.disable
    logging.disable(level)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
