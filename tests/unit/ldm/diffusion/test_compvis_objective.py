"""CompVis' spelling of the objective."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from ldm.diffusion.compvis_objective import DEFAULTS, LossType, combined_objective, compvis_objective
from ldm.diffusion.loss import Absolute, ElementLoss, Huber, Squared
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.timesteps import LogitNormal
from ldm.errors import Fault
from ldm.util import Recipe

OVERLAYS: dict[str, Recipe] = {
    path.stem: settings["model"]["params"]["objective"]
    for path in sorted((Path(__file__).parents[4] / "configs/options").glob("*.yaml"))
    if "objective:" in path.read_text("utf-8") and (settings := yaml.safe_load(path.read_text("utf-8")))
}
OTHER_PATHS = {"rectified-flow", "edm"}
OTHER = {
    "timesteps": 20,
    "beta_schedule": "cosine",
    "linear_start": 0.00085,
    "linear_end": 0.012,
    "cosine_s": 0.1,
    "parameterization": "x0",
    "loss_type": "l1",
}


def test_the_schedule_of_stable_diffusion_is_spelled_as_in_its_config() -> None:
    objective = compvis_objective(timesteps=1000, linear_start=0.00085, linear_end=0.012)
    assert objective.prediction == "eps"
    assert objective.path.alphas_cumprod[-1].item() == pytest.approx(0.0046603, rel=1e-4)


def test_every_parameter_of_the_path_arrives() -> None:
    path = compvis_objective(20, "cosine", cosine_s=0.1).path
    assert torch.equal(path.betas, DDPMPath(20, "cosine", cosine_s=0.1).betas)


@pytest.mark.parametrize(("name", "loss"), [("l1", Absolute()), ("l2", Squared()), ("huber", Huber())])
def test_losses_are_known_by_their_old_names(name: LossType, loss: ElementLoss) -> None:
    assert compvis_objective(20, loss_type=name).loss == loss


def test_the_parameterization_is_the_prediction() -> None:
    assert compvis_objective(20, parameterization="v").prediction == "v"


def parts(objective: Objective) -> dict[str, Any]:
    return {
        "path": objective.path.betas.tolist(),
        "prediction": objective.prediction,
        "loss": objective.loss,
        "weighting": objective.weighting,
        "noise": objective.noise,
    }


def test_overlays_of_the_objective_are_found() -> None:
    found = {"min-snr", "offset-noise", "uncertainty", "zero-terminal-snr", *OTHER_PATHS}
    assert set(OVERLAYS) == found and set(OTHER) == set(DEFAULTS)


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("overlay", OVERLAYS.keys() - OTHER_PATHS)
def test_an_overlay_keeps_what_compvis_spelling_says(overlay: str, name: str) -> None:
    """Each shorthand under each overlay: all that the overlay does not change is as it is without it."""
    cosine = {"beta_schedule": "cosine"} if name == "cosine_s" else {}
    shorthand = DEFAULTS | {"parameterization": "v"} | cosine | {name: OTHER[name]}
    before = DEFAULTS | {"parameterization": "v"} | cosine
    alone, both = parts(compvis_objective(**shorthand)), parts(combined_objective(OVERLAYS[overlay], shorthand))
    changed = {part for part in alone if both[part] != alone[part]}
    assert changed == set(OVERLAYS[overlay]["params"])
    assert both != parts(combined_objective(OVERLAYS[overlay], before))


@pytest.mark.parametrize("name", ["beta_schedule", "linear_start", "linear_end", "cosine_s"])
@pytest.mark.parametrize("overlay", sorted(OTHER_PATHS))
def test_other_paths_refuse_each_setting_of_ddpms_schedule(overlay: str, name: str) -> None:
    recipe = OVERLAYS[overlay]
    shorthand = DEFAULTS | {"parameterization": "flow" if overlay == "rectified-flow" else "v"}
    with pytest.raises(Fault, match=f"model.params.{name} and") as fault:
        combined_objective(recipe, shorthand | {name: OTHER[name]})
    assert f"{recipe['params']['path']['target']} takes no {name}" in fault.value.why


def test_rectified_flow_takes_ddpms_number_of_timesteps() -> None:
    shorthand = DEFAULTS | {"parameterization": "flow", "timesteps": 500}
    objective = combined_objective(OVERLAYS["rectified-flow"], shorthand)
    assert (objective.prediction, objective.path, objective.timesteps) == ("flow", RectifiedFlow(500), LogitNormal())


LOSS = {"target": "ldm.diffusion.loss.Huber"}


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("timesteps", {"path": {"target": "ldm.diffusion.path.DDPMPath", "params": {"timesteps": 30}}}),
        ("beta_schedule", {"path": {"target": "ldm.diffusion.path.DDPMPath", "params": {"beta_schedule": "sqrt"}}}),
        ("parameterization", {"prediction": "v"}),
        ("loss_type", {"loss": LOSS}),
        ("linear_end", {"path": {"target": f"{__name__}.path_of_another_kind"}}),
    ],
)
def test_what_both_say_otherwise_is_refused_by_name(name: str, params: dict[str, Any]) -> None:
    recipe = {"target": "ldm.diffusion.objective.Objective", "params": params}
    with pytest.raises(Fault, match=f"model.params.{name} and model.params.objective contradict") as fault:
        combined_objective(recipe, DEFAULTS | {name: OTHER[name]})
    assert fault.value.id == "CFG08"
    combined_objective(recipe, DEFAULTS)


def path_of_another_kind(timesteps: int = 10) -> DDPMPath:
    return DDPMPath(timesteps)


def test_what_both_say_alike_is_no_contradiction() -> None:
    recipe = {"target": "ldm.diffusion.objective.Objective", "params": {"prediction": "v", "loss": LOSS}}
    found = combined_objective(recipe, DEFAULTS | {"parameterization": "v", "loss_type": "huber"})
    assert (found.prediction, found.loss) == ("v", Huber())


def test_what_is_no_objective_is_told() -> None:
    with pytest.raises(Fault, match="does not fit here"):
        combined_objective({"target": f"{__name__}.anything"}, DEFAULTS)


def anything(**params: Any) -> object:
    return object()
