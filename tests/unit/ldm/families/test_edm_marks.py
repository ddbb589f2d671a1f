"""EDM's levels in files: what they say is what is read, and what is not known is refused by its marks."""

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import EDMDPMSolverMultistepScheduler, EDMEulerScheduler, EulerDiscreteScheduler
from support.small import model

from ldm.convert.diffusers_folder import read_pipeline
from ldm.convert.model_files import ExportSettings, export, remarks
from ldm.diffusion.edm import EDMPath
from ldm.errors import Fault
from ldm.families.edm_marks import edm_of_folder, edm_of_marks
from ldm.families.path_marks import path_of_folder
from ldm.families.stable_diffusion import stable_objective
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.write import write_safetensors
from ldm.models.diffusion.initial_weights import Start, start_networks
from ldm.models.diffusion.latent_scale import scale_of_library
from ldm.models.diffusion.published import build_published
from lun.weights.opening import open_model

COSXL = EDMPath(sigma_data=1.0, sigma_max=120.0, spacing="exponential")
PLAYGROUND = EDMPath()
SIGMAS = {"edm_vpred.sigma_max": torch.tensor(120.0), "edm_vpred.sigma_min": torch.tensor(0.002)}


def source(path: EDMPath, prediction: str, family: Any = "sdxl") -> Any:
    return model(family, prediction=prediction, scheduler=dict(path.scheduler_settings()), scale_factor=0.13025)


def test_a_folder_is_read_as_it_was_written(tmp_path: Path) -> None:
    export(source(PLAYGROUND, "edm_prediction"), tmp_path / "folder", ExportSettings("diffusers"))
    scheduler = EDMEulerScheduler.from_pretrained(tmp_path / "folder/scheduler")
    assert scheduler.config.prediction_type == "epsilon"
    assert json.loads((tmp_path / "folder/vae/config.json").read_text())["scaling_factor"] == 0.13025 * 0.5
    found = read_pipeline(tmp_path / "folder")
    objective = stable_objective(found.facts)
    assert (objective.prediction, objective.path, found.facts.scale_factor) == ("edm", PLAYGROUND, 0.13025)
    described = open_checkpoint(tmp_path / "folder").describe()
    assert (described.prediction, described.edm) == ("edm", True)


def test_a_single_file_of_unit_variance_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "x.safetensors"
    export(source(COSXL, "v_prediction"), file, ExportSettings("ldm"))
    found = open_model(str(file)).model
    assert {"edm_vpred.sigma_max", "edm_vpred.sigma_min"} <= found.state.keys() and "v_pred" not in found.state
    objective = stable_objective(found.facts)
    assert (objective.prediction, objective.path) == ("v", COSXL)
    described = open_checkpoint(file).describe()
    assert (described.prediction, described.edm) == ("v", True) and "v on EDM's levels" in described.line()
    assert any("EDM" in line for line in remarks(found, "ldm"))


@pytest.mark.parametrize(
    ("path", "prediction", "family"),
    [(PLAYGROUND, "edm_prediction", "sdxl"), (PLAYGROUND, "v_prediction", "sdxl"), (COSXL, "v_prediction", "sd1")],
)
def test_a_single_file_that_could_not_say_it_is_not_written(
    path: EDMPath, prediction: str, family: str, tmp_path: Path
) -> None:
    with pytest.raises(Fault, match="cannot record") as fault:
        export(source(path, prediction, family), tmp_path / "x.safetensors", ExportSettings("ldm"))
    assert fault.value.id == "MOD03" and "to=diffusers" in fault.value.fix and not list(tmp_path.iterdir())


def test_a_mean_and_a_deviation_for_each_channel_are_read_as_they_were_written(tmp_path: Path) -> None:
    latents = {"latents_mean": [-1.6574, 1.886, -1.383, 2.5155], "latents_std": [8.4927, 5.9022, 6.5498, 5.2299]}
    given = source(PLAYGROUND, "edm_prediction")
    config = {**given.latent.config(given.first_stage), **latents, "scaling_factor": 1.0}
    given = replace(given, facts=replace(given.facts, scale_factor=1.0, configs={"vae": config}))
    export(given, tmp_path / "x.safetensors", ExportSettings("ldm"))
    found = open_model(str(tmp_path / "x.safetensors")).model
    objective = stable_objective(found.facts)
    assert (objective.prediction, objective.path) == ("edm", PLAYGROUND)
    assert {name: found.facts.configs["vae"][name] for name in latents} == latents
    export(found, tmp_path / "folder", ExportSettings("diffusers"))
    stored = json.loads((tmp_path / "folder/vae/config.json").read_text())
    assert {name: stored[name] for name in latents} == latents and stored["scaling_factor"] == 0.5
    again = read_pipeline(tmp_path / "folder").facts
    assert (again.scale_factor, scale_of_library({**again.configs["vae"], "scaling_factor": 1.0})) == (
        1.0,
        ([1 / std for std in latents["latents_std"]], latents["latents_mean"]),
    )


@pytest.mark.parametrize(
    "marks",
    [["edm_mean"], ["edm_vpred.sigma_min"], ["edm_vpred.sigma_max", "edm_std"], ["edm_other"]],
    ids=" ".join,
)
def test_marks_of_levels_that_are_not_known_are_refused_by_name(marks: list[str], tmp_path: Path) -> None:
    with pytest.raises(Fault) as fault:
        edm_of_marks({name: torch.zeros(4) for name in marks}, "x")
    assert fault.value.id == "MOD03" and all(name in fault.value.what for name in marks)


def test_the_noisiest_level_is_the_marks_own() -> None:
    for most in (120.0, 80.0):
        marks = edm_of_marks({"edm_vpred.sigma_max": torch.tensor(most)}, "x")
        assert marks and (marks.prediction, marks.scheduler["sigma_max"]) == ("v_prediction", most)
    assert edm_of_marks({"v_pred": torch.zeros(0)}, "x") is None


@pytest.mark.parametrize(
    ("scheduler", "settings"),
    [
        (EDMEulerScheduler(), dict(PLAYGROUND.scheduler_settings())),
        (
            EDMDPMSolverMultistepScheduler(sigma_data=1.0, sigma_max=120.0, sigma_schedule="exponential"),
            dict(COSXL.scheduler_settings()),
        ),
        (EulerDiscreteScheduler(), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_diffusers_schedulers_are_known_by_their_config(scheduler: Any, settings: dict[str, Any]) -> None:
    stored = {"_class_name": type(scheduler).__name__, **scheduler.config}
    assert edm_of_folder(stored) == settings
    other = path_of_folder(stored)
    assert (other.prediction if other else None) == ("edm_prediction" if settings else None)


def test_a_scheduler_on_other_continuous_levels_is_refused_by_name() -> None:
    with pytest.raises(Fault, match="CosineDPMSolverMultistepScheduler") as fault:
        path_of_folder({"_class_name": "CosineDPMSolverMultistepScheduler", "sigma_data": 1.0})
    assert fault.value.id == "MOD03"


def test_a_run_on_other_levels_than_its_weights_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_safetensors(tmp_path / "x.safetensors", model("sd1").completed().state | SIGMAS)
    built = build_published(model("sd1"))
    with caplog.at_level(logging.WARNING):
        start_networks(
            {"network": built.part_recipes()["network"]}, Start(str(tmp_path / "x.safetensors"), prediction="v")
        )
    assert "trained on EDM's levels; this run trains it on other levels" in caplog.text
