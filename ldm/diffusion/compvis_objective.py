"""The objective in CompVis' spelling, as model configs have written it since 2022, alone and under an `objective`."""

import inspect
from collections.abc import Mapping
from typing import Any, Literal

from ldm.admission import admitted
from ldm.diffusion.loss import Absolute, ElementLoss, Huber, Squared
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import BetaSchedule, DDPMPath
from ldm.diffusion.prediction import Prediction
from ldm.errors import Fault
from ldm.util import Recipe, instantiate_from_config, is_recipe

LossType = Literal["l1", "l2", "huber"]
LOSSES: dict[LossType, ElementLoss] = {"l1": Absolute(), "l2": Squared(), "huber": Huber()}
PATH = "ldm.diffusion.path.DDPMPath"
WHERE = "model.params"


def compvis_objective(
    timesteps: int = 1000,
    beta_schedule: BetaSchedule = "linear",
    linear_start: float = 1e-4,
    linear_end: float = 2e-2,
    cosine_s: float = 8e-3,
    parameterization: Prediction = "eps",
    loss_type: LossType = "l2",
) -> Objective:
    """The unweighted objective that these parameters of `ldm.models.diffusion.ddpm.DDPM` describe."""
    path = DDPMPath(timesteps, beta_schedule, linear_start, linear_end, cosine_s)
    return Objective(path, parameterization, loss=LOSSES[loss_type])


DEFAULTS = {name: parameter.default for name, parameter in inspect.signature(compvis_objective).parameters.items()}


def combined_objective(recipe: Recipe | Objective | None, shorthand: Mapping[str, Any]) -> Objective:
    """The objective of a recipe, in which CompVis' spelling (the parameters of `compvis_objective`) fills what is left.

    An objective that is built already is taken as it is. Raises `Fault` CFG08 where both say something, and not the
    same (a default of CompVis' spelling says nothing), CFG04 if the recipe makes something else.
    """
    if recipe is None:
        return compvis_objective(**shorthand)
    if isinstance(recipe, Objective):
        return recipe
    given = dict(recipe.get("params") or {})
    path = given.get("path")
    if path is None or is_recipe(path):
        given["path"] = _filled_path(path or {"target": PATH}, shorthand)
    given["prediction"] = _either(given, "prediction", shorthand, "parameterization", shorthand["parameterization"])
    given["loss"] = _either(given, "loss", shorthand, "loss_type", LOSSES[shorthand["loss_type"]])
    objective = instantiate_from_config({**recipe, "params": given})
    if not isinstance(objective, Objective):
        why = "this place takes an ldm.diffusion.objective.Objective"
        raise Fault("CFG04", f"target {recipe['target']} does not fit here", where=f"{WHERE}.objective", why=why)
    return objective


def _filled_path(recipe: Recipe, shorthand: Mapping[str, Any]) -> Recipe:
    given = dict(recipe.get("params") or {})
    takes = inspect.signature(admitted(recipe["target"])).parameters
    for name in inspect.signature(DDPMPath).parameters.keys() & DEFAULTS.keys():
        if name in takes:
            given[name] = _either(given, name, shorthand, name, shorthand[name], "path.params.")
        elif _is_said(shorthand, name):
            raise _contradiction(name, shorthand, f"{recipe['target']} takes no {name}")
    return {**recipe, "params": given}


def _either(
    given: Mapping[str, Any], name: str, shorthand: Mapping[str, Any], short: str, value: Any, inside: str = ""
) -> Any:
    """What the recipe says, else `value`, which CompVis' spelling means."""
    if name not in given:
        return value
    said = instantiate_from_config(given[name]) if is_recipe(given[name]) else given[name]
    if _is_said(shorthand, short) and said != value:
        raise _contradiction(short, shorthand, f"{WHERE}.objective.params.{inside}{name} is {said!r}")
    return given[name]


def _is_said(shorthand: Mapping[str, Any], name: str) -> bool:
    return bool(shorthand[name] != DEFAULTS[name])


def _contradiction(name: str, shorthand: Mapping[str, Any], why: str) -> Fault:
    return Fault(
        "CFG08",
        f"{WHERE}.{name} and {WHERE}.objective contradict each other",
        where=f"{WHERE}.{name} is {shorthand[name]!r}",
        why=why,
        fix=f"say it once: leave {name} out of the objective, or ~{WHERE}.{name}",
    )
