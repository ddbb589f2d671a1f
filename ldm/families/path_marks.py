"""On which path a network was trained, as diffusers' folders and the marks of single files say it.

What they say becomes `Facts.scheduler`; that nothing is said means DDPM's path.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ldm.diffusion.objective import Objective
from ldm.diffusion.prediction_names import PredictionType, prediction_named
from ldm.families import edm_marks, flow_marks
from ldm.families.facts import Facts


class PathFacts(NamedTuple):
    """What the network predicts, and the settings of a path other than DDPM's."""

    prediction: PredictionType
    scheduler: dict[str, Any]


def path_of_folder(stored: Mapping[str, Any]) -> PathFacts | None:
    """What a `scheduler_config.json` says; None for DDPM's path. Raises `Fault` MOD03 for levels that are not known."""
    if flow := flow_marks.flow_of_folder(stored):
        return PathFacts(flow_marks.FLOW, flow)
    if edm := edm_marks.edm_of_folder(stored):
        return PathFacts(edm_marks.prediction_in_folder(stored.get("prediction_type")), edm)
    return None


def folder_of_path(facts: Facts) -> dict[str, Any] | None:
    """The settings of diffusers' scheduler for a pipeline of Stable Diffusion; None for DDPM's path."""
    if flow_marks.is_flow(facts.scheduler):
        return flow_marks.folder_of_flow(facts.scheduler)
    if edm_marks.is_edm(facts.scheduler):
        return edm_marks.folder_of_edm(facts.prediction, facts.scheduler)
    return None


def objective_on_path(facts: Facts) -> Objective | None:
    """Path and prediction of a network; None for DDPM's path."""
    scheduler = facts.scheduler
    if flow_marks.is_flow(scheduler):
        return Objective(flow_marks.path_of(scheduler), "flow")
    if edm_marks.is_edm(scheduler):
        return Objective(edm_marks.path_of(scheduler), prediction_named(facts.prediction) or "edm")
    return None


def data_deviation(scheduler: Mapping[str, Any]) -> float:
    """The deviation that latents have in diffusers' pipelines; here it is 1 on every path."""
    return float(scheduler.get("sigma_data", 1.0))
