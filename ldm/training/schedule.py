"""The learning rate of a step: what the config gives each group, times the factor of its schedule at that step."""

import bisect
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau

from ldm.admission import admitted
from ldm.errors import Fault
from ldm.torch_internals import set_last_rates
from ldm.training.optimizer_settings import Settings
from ldm.util import Recipe, instantiate_from_config, is_recipe

WHERE = "model.params.scheduler_config"
Factors = Callable[[int], Sequence[float]]
"""Optimizer step -> the factor on the learning rate of each group."""


@dataclass(frozen=True)
class GroupSchedule:
    """How the rate of a group moves: by the schedule of a recipe, or not at all, and from step `end` on it is 0."""

    schedule: Recipe | None = None
    end: int | None = None


class Simulated:
    """The rates that one of torch's schedules sets, as factors: it runs over an optimizer of its own.

    So nothing of it is stored, and at a resume it is evaluated where the run stands, like any other.
    Raises `Fault` CFG08 for one that needs more than the step, or moves more than the rate.
    """

    def __init__(self, recipe: Recipe, rates: Sequence[float]) -> None:
        self._recipe = recipe
        self._rates = rates
        self._begin()

    def __call__(self, step: int) -> list[float]:
        if step < self._step:
            self._begin()
        while self._step < step:
            self._optimizer.step()
            self._schedule.step()
            self._step += 1
        now = zip(self._optimizer.param_groups, self._rates, strict=True)
        return [group["lr"] / rate if rate else 0.0 for group, rate in now]

    def _begin(self) -> None:
        groups = [{"params": [nn.Parameter(torch.zeros(1))], "lr": rate} for rate in self._rates]
        self._optimizer = SGD(groups, lr=0.0, momentum=0.9)  # some insist on a momentum to move
        self._schedule = _over(self._optimizer, self._recipe)
        self._step = 0


def factors_of(recipe: Recipe, rates: Sequence[float]) -> Factors:
    """The schedule of a recipe for groups of these learning rates: any `step -> factor`, or one of torch's classes."""
    if is_torch_schedule(admitted(recipe["target"])):
        return Simulated(recipe, rates)
    factor: Callable[[int], float] = instantiate_from_config(recipe)
    return lambda step: [factor(step)] * len(rates)


def is_torch_schedule(target: Any) -> bool:
    """Whether it is a class whose objects set the rates of an optimizer by themselves."""
    return inspect.isclass(target) and issubclass(target, LRScheduler)


def with_horizon(recipe: Recipe, max_steps: int, where: str = WHERE) -> Recipe:
    """The recipe of a schedule that stands at `where`, with `total_steps` if its signature has one and nobody says it.

    The horizon belongs to the run's first start: it is stored with the configuration and kept when a run goes on.
    Raises `Fault` CFG03 where `max_steps` is -1, since only a time limit ends the run.
    """
    names = inspect.signature(admitted(recipe["target"])).parameters
    params = dict(recipe.get("params") or {})
    if "total_steps" in names and params.get("total_steps") is None and "epochs" not in params:
        if max_steps < 0:
            raise Fault(
                "CFG03",
                f"{recipe['target']} needs to know how long the run is",
                where=where,
                why="only a time limit ends this run",
                fix=f"{where}.params.total_steps=10000",
            )
        params["total_steps"] = max_steps
    return {**recipe, "params": params}


def schedule_for(optimizer: Optimizer, schedules: Sequence[GroupSchedule]) -> LambdaLR:
    """What moves the rates of a new optimizer's groups, each by its own schedule, after each step."""
    moves: list[Callable[[int], float]] = [lambda step: 1.0] * len(schedules)
    for number, one in enumerate(schedules):
        alike = [index for index, other in enumerate(schedules) if other.schedule == one.schedule]
        if one.schedule is not None and alike[0] == number:
            factors = factors_of(one.schedule, [float(optimizer.param_groups[index]["lr"]) for index in alike])
            for place, index in enumerate(alike):
                moves[index] = partial(_factor_of, factors, place)
    # Bare functions: LambdaLR would store a schedule object's fields and bring them back over changed settings.
    return LambdaLR(optimizer, [_ended(move, one.end) for move, one in zip(moves, schedules, strict=True)])


def set_rates(
    optimizers: Iterable[Optimizer], schedules: Sequence[Any], settings: Sequence[Settings], step: int
) -> None:
    """Give all groups the learning rates of `step`, whatever a checkpoint brought back.

    settings   the settings of each optimizer, with the rates before any schedule
    schedules  one for each optimizer, or none
    """
    for index, (optimizer, given) in enumerate(zip(optimizers, settings, strict=True)):
        rates = [group["lr"] for group in given["groups"]]
        schedule: LambdaLR | None = schedules[index] if schedules else None
        if schedule is not None:
            schedule.base_lrs, schedule.last_epoch = list(rates), step
            now = [rate * factor(step) for rate, factor in zip(rates, schedule.lr_lambdas, strict=True)]
            set_last_rates(schedule, now)
            _give(schedule.optimizer, rates, now)  # a strategy's optimizer may stand around it
        else:
            _give(optimizer, None, rates)


def finished_at(recipe: Recipe, rate: float, step: int, max_steps: int) -> int | None:
    """The step from which on the learning rate is 0 to the end of a run that goes on from `step`; None if it is not."""
    factors = factors_of(recipe, [rate])
    if max_steps <= step or factors(max_steps - 1)[0] != 0.0:
        return None
    return step + bisect.bisect_left(range(step, max_steps - 1), True, key=lambda at: factors(at)[0] == 0.0)


def longer(recipe: Recipe, max_steps: int) -> str:
    """What to write so that a schedule lasts until `max_steps`."""
    names = inspect.signature(admitted(recipe["target"])).parameters
    return f"{WHERE}.params.total_steps={max_steps}" if "total_steps" in names else f"a longer one in {WHERE}.params"


def _factor_of(factors: Factors, place: int, step: int) -> float:
    return factors(step)[place]


def _ended(move: Callable[[int], float], end: int | None) -> Callable[[int], float]:
    return lambda step: move(step) if end is None or step < end else 0.0


def _over(optimizer: Optimizer, recipe: Recipe) -> LRScheduler:
    """One of torch's schedules over `optimizer`, with those that it is made of."""
    params = {name: _built(value, optimizer) for name, value in (recipe.get("params") or {}).items()}
    target = admitted(recipe["target"])
    if issubclass(target, ReduceLROnPlateau):
        raise _refused(target, "it waits for a metric to stop falling; a schedule here follows the step alone")
    accepts = inspect.signature(target).parameters
    given = {"optimizer": optimizer} if "optimizer" in accepts else {}
    schedule: LRScheduler = instantiate_from_config({"target": recipe["target"], "params": params}, **given)
    if getattr(schedule, "cycle_momentum", False):
        why = "it would move the momentum, too, of which the run's optimizer knows nothing"
        raise _refused(target, why, f"{WHERE}.params.cycle_momentum=false")
    return schedule


def _built(value: Any, optimizer: Optimizer) -> Any:
    if isinstance(value, list):
        return [_built(item, optimizer) for item in value]
    if is_recipe(value) and is_torch_schedule(admitted(value["target"])):
        return _over(optimizer, value)
    return value


def _refused(target: type, why: str, fix: str = "ldm.lr_scheduler.WarmupCosine, or another of torch's") -> Fault:
    return Fault("CFG08", f"{target.__name__} cannot be the schedule of a run", where=WHERE, why=why, fix=fix)


def _give(optimizer: Optimizer, base: Sequence[float] | None, now: Sequence[float]) -> None:
    groups: list[dict[str, Any]] = optimizer.param_groups
    for index, (group, rate) in enumerate(zip(groups, now, strict=True)):
        group["lr"] = rate
        group.pop("initial_lr", None)
        group.update({"initial_lr": base[index]} if base is not None else {})
