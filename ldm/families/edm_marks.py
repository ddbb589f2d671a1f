"""How files say that a network was trained on EDM's levels: marks of single files, schedulers of diffusers' folders.

`Facts.scheduler` then has `sigma_data`, `sigma_min`, `sigma_max` and `sigma_schedule`, in the words of diffusers.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ldm.diffusion.edm import EDMPath
from ldm.diffusion.prediction_names import PredictionType
from ldm.errors import Fault
from ldm.families.facts import Facts
from ldm.files.state import State

EDM: Literal["edm_prediction"] = "edm_prediction"
V: Literal["v_prediction"] = "v_prediction"
MARK = "edm_"
SIGMA_MAX, SIGMA_MIN = "edm_vpred.sigma_max", "edm_vpred.sigma_min"
CENTRE = ("edm_mean", "edm_std")
UNIT_VARIANCE: Mapping[str, Any] = {"sigma_data": 1.0, "sigma_min": 0.002, "sigma_max": 120.0}
"""Of files that are marked by their levels (CosXL): what they leave out."""
FOLDER = {"EDMEulerScheduler", "EDMDPMSolverMultistepScheduler"}
SETTINGS = ("sigma_data", "sigma_min", "sigma_max", "sigma_schedule", "num_train_timesteps")


def is_edm(scheduler: Mapping[str, Any]) -> bool:
    """Whether settings of a scheduler, as `Facts` has them, are of EDM's levels."""
    return "sigma_data" in scheduler


def path_of(scheduler: Mapping[str, Any]) -> EDMPath:
    """The path that such settings describe."""
    spacing = scheduler.get("sigma_schedule", "karras")
    levels = {name: float(scheduler[name]) for name in ("sigma_data", "sigma_min", "sigma_max")}
    return EDMPath(**levels, spacing=spacing, timesteps=scheduler.get("num_train_timesteps", 1000))


class EDMMarks(NamedTuple):
    """What marks of a single file say: the prediction, settings of a scheduler, and the mark that decided."""

    prediction: PredictionType
    scheduler: Mapping[str, Any]
    mark: str


def edm_of_marks(state: State, source: str) -> EDMMarks | None:
    """What a single file's marks say, whose numbers are asked for only where they have some; None without any.

    Raises `Fault` MOD03, which names them, for marks of EDM that do not say on which levels.
    """
    marks = sorted(key for key in state if key.startswith(MARK))
    if not marks:
        return None
    if marks == sorted(CENTRE):
        return EDMMarks(EDM, EDMPath().scheduler_settings(), marks[0])
    if SIGMA_MAX not in marks or set(marks) - {SIGMA_MAX, SIGMA_MIN}:
        raise Fault(
            "MOD03",
            f"{source} is marked {', '.join(marks)}, and such a model is not known here",
            why=f"known are {SIGMA_MAX} with or without {SIGMA_MIN} (CosXL), {' with '.join(CENTRE)} (Playground 2.5)",
            fix="use another model, or a folder that diffusers reads, whose scheduler says it",
        )
    names = {"sigma_min": SIGMA_MIN, "sigma_max": SIGMA_MAX}
    levels = {name: numbers(state[key])[0] for name, key in names.items() if key in state and not state[key].is_meta}
    return EDMMarks(V, {**UNIT_VARIANCE, **levels, "sigma_schedule": "exponential"}, SIGMA_MAX)


def latents_of_marks(state: State) -> dict[str, Any]:
    """What marks say of the latents, in the words of diffusers' `AutoencoderKL`; {} where they say nothing."""
    if not all(key in state for key in CENTRE):
        return {}
    mean, std = (numbers(state[key]) for key in CENTRE)
    return {"scaling_factor": 1.0, "latents_mean": mean, "latents_std": std}


def numbers(mark: Tensor) -> list[float]:
    """The numbers of a mark, of any shape, as they were written, before they were float32."""
    return [float(f"{number:.7g}") for number in mark.double().flatten().tolist()]


def marks_of(facts: Facts) -> State:
    """The marks by which readers know a network on EDM's levels; {} where none do."""
    scheduler, vae = facts.scheduler, facts.configs.get("vae", {})
    if facts.prediction == V and scheduler["sigma_data"] == 1:
        return {SIGMA_MAX: torch.tensor(scheduler["sigma_max"]), SIGMA_MIN: torch.tensor(scheduler["sigma_min"])}
    latents = [vae.get("latents_mean"), vae.get("latents_std")]
    if facts.prediction == EDM and scheduler == EDMPath().scheduler_settings() and None not in latents:
        return {key: torch.tensor(value).view(1, -1, 1, 1) for key, value in zip(CENTRE, latents, strict=True)}
    return {}


def edm_of_folder(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in a `scheduler_config.json`; {} where it is of another path.

    Raises `Fault` MOD03 for a scheduler on levels that are not known here.
    """
    name = str(stored.get("_class_name", ""))
    if name not in FOLDER:
        if "sigma_data" in stored:
            why = f"EDM's levels are those of {' and '.join(sorted(FOLDER))}"
            raise Fault("MOD03", f"the levels of the scheduler {name or 'without a name'} are not known", why=why)
        return {}
    usual = {**EDMPath().scheduler_settings(), "num_train_timesteps": 1000}
    settings = {key: usual[key] if stored.get(key) is None else stored[key] for key in SETTINGS}
    return {key: value for key, value in settings.items() if (key, value) != ("num_train_timesteps", 1000)}


def prediction_in_folder(word: object) -> PredictionType:
    """What a folder's scheduler on EDM's levels means by its `prediction_type`: epsilon is EDM's own F."""
    return V if word == V else EDM


def folder_of_edm(prediction: PredictionType | None, scheduler: Mapping[str, Any]) -> dict[str, Any]:
    """diffusers' scheduler for a pipeline on these levels."""
    word = V if prediction == V else "epsilon"
    return {"_class_name": "EDMEulerScheduler", "num_train_timesteps": 1000, "prediction_type": word, **scheduler}
