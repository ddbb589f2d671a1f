"""How files say that a network was trained by rectified flow, in diffusers' folders and in our own metadata.

A single file has no agreed mark of it: other programs have to be set to it.
"""

from collections.abc import Mapping
from typing import Any, Literal, get_args

from ldm.diffusion.rectified_flow import RectifiedFlow, Spacing

FLOW: Literal["flow_prediction"] = "flow_prediction"
SHIFT, SPACING = "lun.sampling_shift", "lun.sampling_spacing"
"""Metadata of a single file, beside `modelspec.prediction_type`."""


def is_flow(scheduler: Mapping[str, Any]) -> bool:
    """Whether settings of a scheduler, as `Facts` has them, are of rectified flow."""
    return bool(scheduler.get("use_flow_sigmas"))


def flow_of_folder(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of rectified flow in a `scheduler_config.json`; {} where it is of another path."""
    euler = "FlowMatch" in str(stored.get("_class_name", ""))
    if not euler and not stored.get("use_flow_sigmas") and stored.get("prediction_type") != FLOW:
        return {}
    shift = stored.get("shift" if euler else "flow_shift")
    timesteps = stored.get("num_train_timesteps", 1000)
    beside = {} if timesteps == 1000 else {"num_train_timesteps": timesteps}
    return {
        "use_flow_sigmas": True,
        "flow_shift": 1.0 if shift is None else float(shift),
        "timestep_spacing": "linspace" if euler else "trailing",
        **beside,
    }


def path_of(scheduler: Mapping[str, Any], usual: float = 1.0, usual_spacing: Spacing = "trailing") -> RectifiedFlow:
    """The path of settings of a scheduler, as `Facts` has them."""
    return RectifiedFlow(
        scheduler.get("num_train_timesteps", 1000),
        scheduler.get("flow_shift", usual),
        scheduler.get("timestep_spacing", usual_spacing),
    )


def flow_of_metadata(
    metadata: Mapping[str, Any], usual: float = 1.0, usual_spacing: Spacing = "trailing"
) -> dict[str, Any]:
    """The same of a single file that predicts a flow; `usual` is the shift where its metadata has none."""
    try:
        shift = float(metadata.get(SHIFT, usual))
    except ValueError:  # another program's
        shift = usual
    named = metadata.get(SPACING)
    spacing = next((spacing for spacing in get_args(Spacing) if spacing == named), usual_spacing)
    return {"use_flow_sigmas": True, "flow_shift": shift, "timestep_spacing": spacing}


def folder_of_flow(scheduler: Mapping[str, Any]) -> dict[str, Any]:
    """diffusers' scheduler for a pipeline of Stable Diffusion 1.x, 2.x or XL, and for levels that end at 1 / steps.

    The pipelines of these ask a scheduler for what FlowMatchEulerDiscreteScheduler lacks (init_noise_sigma,
    scale_model_input). Its own levels end at the last one of all, whatever `timestep_spacing` says, and those here
    visit what `RectifiedFlow` calls trailing, to a thousandth.
    """
    return {
        "_class_name": "DPMSolverMultistepScheduler",
        "num_train_timesteps": 1000,
        "prediction_type": FLOW,
        "algorithm_type": "dpmsolver++",
        "solver_order": 2,
        "steps_offset": 1,  # without effect on these levels, but pipelines warn of another
        **{name: value for name, value in scheduler.items() if name != "timestep_spacing"},
    }
