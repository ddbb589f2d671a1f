"""Rectified flow in files: what they say is what is read."""

from pathlib import Path
from typing import Any

import pytest
from diffusers import DPMSolverMultistepScheduler, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler
from support.small import model

from ldm.convert.diffusers_folder import read_pipeline, scheduler_config
from ldm.convert.model_files import ExportSettings, export, remarks
from ldm.convert.modelspec import metadata_of
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.errors import Fault
from ldm.families.flow_marks import flow_of_folder, flow_of_metadata
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.models.diffusion.published import build_published
from lun.weights.opening import open_model

SETTINGS = dict(RectifiedFlow(sampling_shift=3.0).scheduler_settings())


def test_a_folders_scheduler_walks_the_path_that_it_was_written_for() -> None:
    told = scheduler_config(model("sdxl", prediction="flow_prediction", scheduler=SETTINGS).facts)
    scheduler = DPMSolverMultistepScheduler.from_config(told)
    scheduler.set_timesteps(4)
    assert scheduler.config.use_flow_sigmas and scheduler.config.prediction_type == "flow_prediction"
    assert scheduler.sigmas.tolist() == pytest.approx(RectifiedFlow(sampling_shift=3.0).grid(4).tolist(), abs=2e-3)
    assert flow_of_folder(dict(scheduler.config)) == SETTINGS


@pytest.mark.parametrize(
    ("scheduler", "settings"),
    [
        (FlowMatchEulerDiscreteScheduler(shift=3.0), {**SETTINGS, "timestep_spacing": "linspace"}),
        (
            FlowMatchEulerDiscreteScheduler(500),
            {**SETTINGS, "flow_shift": 1.0, "timestep_spacing": "linspace", "num_train_timesteps": 500},
        ),
        (DPMSolverMultistepScheduler(), {}),
        (EulerDiscreteScheduler(prediction_type="v_prediction"), {}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_diffusers_schedulers_are_known_by_their_config(scheduler: Any, settings: dict[str, Any]) -> None:
    assert flow_of_folder({"_class_name": type(scheduler).__name__, **scheduler.config}) == settings


@pytest.mark.parametrize("family", ["sd1", "sd2", "sdxl"])
def test_file_and_folder_of_a_flow_are_read_as_they_were_written(family: Any, tmp_path: Path) -> None:
    source = model(family, prediction="flow_prediction", scheduler=SETTINGS)
    assert export(source, tmp_path / "x.safetensors", ExportSettings("ldm")) == (tmp_path / "x.safetensors",)
    export(source, tmp_path / "folder", ExportSettings("diffusers"))
    for found in (open_model(str(tmp_path / "x.safetensors")).model, read_pipeline(tmp_path / "folder")):
        assert (found.facts.prediction, dict(found.facts.scheduler)) == ("flow_prediction", SETTINGS)
        objective = build_published(found).objective
        assert (objective.prediction, objective.path) == ("flow", RectifiedFlow(sampling_shift=3.0))
    for path in (tmp_path / "x.safetensors", tmp_path / "folder"):
        assert open_checkpoint(path).describe().prediction == "flow"


def test_a_file_of_a_flow_says_what_it_can_and_what_others_have_to_be_told() -> None:
    source = model("sd2", prediction="flow_prediction", scheduler=SETTINGS)
    told = metadata_of(source, "t", "d")
    assert (told["modelspec.prediction_type"], flow_of_metadata(told)) == ("flow", SETTINGS)
    assert source.family is not None and not source.family.needs_yaml(source.facts)
    assert any("rectified flow" in line and "shift 3" in line for line in remarks(source, "ldm"))
    assert not any("rectified flow" in line for line in remarks(source, "diffusers"))
    assert flow_of_metadata({"lun.sampling_shift": "much"})["flow_shift"] == 1.0


def test_a_folder_that_cannot_have_the_levels_of_the_samples_here_is_said_to() -> None:
    settings = dict(RectifiedFlow(sampling_shift=3.0, spacing="linspace").scheduler_settings())
    odd, usual = (model("sdxl", prediction="flow_prediction", scheduler=given) for given in (settings, SETTINGS))
    assert any("spaced linspace" in line for line in remarks(odd, "diffusers"))
    assert not any("spaced" in line for line in remarks(usual, "diffusers"))
    assert flow_of_metadata(metadata_of(odd, "t", "d")) == settings


@pytest.mark.parametrize(("prediction", "scheduler"), [("flow_prediction", {}), ("v_prediction", SETTINGS)])
def test_what_no_program_draws_from_is_not_exported(prediction: str, scheduler: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(Fault, match="have no setting for") as fault:
        export(
            model("sd1", prediction=prediction, scheduler=scheduler), tmp_path / "x.safetensors", ExportSettings("ldm")
        )
    assert fault.value.id == "MOD03" and not list(tmp_path.iterdir())
