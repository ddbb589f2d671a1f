"""What Stable Diffusion 1.x, 2.x and XL share: a UNet with cross-attention, DDPM's path, CompVis' names in files."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ldm.diffusion.objective import Objective
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.prediction_names import PredictionType, prediction_named
from ldm.errors import Fault
from ldm.families.facts import Facts, Unconditional
from ldm.families.infer_config import context_width, input_block_widths, unet_config
from ldm.families.path_marks import objective_on_path
from ldm.families.record import Denoiser, Variant
from ldm.files.state import State
from ldm.keys.layout import unet_to_compvis, unet_to_diffusers

WIDTHS = [320, 640, 1280, 1280]
INPUT = ("input_blocks.0.0.weight", "conv_in.weight")
LABELS = ("label_emb.0.0.weight", "add_embedding.linear_1.weight")

SCHEDULER: Mapping[str, Any] = {
    "_class_name": "DDIMScheduler",
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "clip_sample": False,
    "set_alpha_to_one": False,
    "steps_offset": 1,
    "timestep_spacing": "leading",
    "prediction_type": "epsilon",
}
SCHEDULES: Mapping[str, Any] = {"scaled_linear": "linear", "linear": "sqrt_linear"}


def of_shape(context: int, channels: int, width: int = WIDTHS[0], labels: bool = False) -> Callable[[State], bool]:
    """Whether a UNet has this context width, input channels, width of its first level, and size embedding."""

    def matches(unet: State) -> bool:
        first = next((unet[name] for name in INPUT if name in unet), None)
        return (
            first is not None
            and tuple(first.shape[:2]) == (width, channels)
            and context_width(unet) == context
            and any(name in unet for name in LABELS) == labels
        )

    return matches


def projections(unet: State) -> set[int]:
    """The numbers of dimensions of the matrices by which a UNet projects into attention: 4 for convolutions, or 2.

    Empty for a network that is no UNet with cross-attention, under CompVis' names.
    """
    if INPUT[0] not in unet or context_width(unet) is None:
        return set()
    return {value.ndim for key, value in unet.items() if key.endswith("proj_in.weight")}


def has_size_embedding(unet: State) -> bool:
    """Whether a UNet under CompVis' names embeds sizes and a pooled caption vector."""
    return LABELS[0] in unet


def unet_network(heads: int | None, linear: bool, widths: list[int]) -> Denoiser:
    """The UNet with `heads` attention heads at every width (None: heads of 64 channels) and the published `widths`."""
    return Denoiser(
        recognises=lambda unet: len(projections(unet)) == 1,
        target="ldm.modules.networks.unet.UNet",
        settings=partial(unet_config, heads=heads, linear_projection=linear),
        in_channels=lambda unet: int(unet[INPUT[0]].shape[1]),
        is_public=lambda unet: input_block_widths(unet) == widths,
        library="UNet2DConditionModel",
        folder="unet",
        to_library=unet_to_diffusers,
        from_library=unet_to_compvis,
    )


def not_converted(title: str, facts: str, matches: Callable[[State], bool], channels: int) -> Variant:
    """A published model that is recognised by name and goes no further."""
    return Variant(title, facts, matches, in_channels=channels)


def stable_objective(facts: Facts) -> Objective:
    """The path and the prediction by the facts.

    Raises `Fault` MOD03 for a noise schedule that they do not give.
    """
    scheduler = facts.scheduler
    if other := objective_on_path(facts):
        return other
    schedule = scheduler.get("beta_schedule", "scaled_linear")
    if "trained_betas" in scheduler or schedule not in SCHEDULES:
        raise Fault(
            "MOD03",
            "its noise schedule is one that a file does not hold",
            why=f"known are {', '.join(SCHEDULES)}; it says {scheduler.get('beta_schedule', 'a table of its own')}",
            fix="draw from the run that it came from, whose config describes it",
        )
    path = DDPMPath(
        timesteps=scheduler.get("num_train_timesteps", 1000),
        beta_schedule=SCHEDULES[schedule],
        linear_start=scheduler.get("beta_start", 0.00085),
        linear_end=scheduler.get("beta_end", 0.012),
        zero_terminal_snr=facts.zero_terminal_snr,
    )
    return Objective(path, prediction_named(facts.prediction) or "eps")


def no_checker(unconditional: Unconditional | None) -> Mapping[str, Any]:
    """Entries of `model_index.json`: no safety checker, and no warning that there is none."""
    return {"safety_checker": [None, None], "requires_safety_checker": False}


V: PredictionType = "v_prediction"
