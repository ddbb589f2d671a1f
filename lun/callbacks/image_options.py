"""The names that `log_images_kwargs` of a config may hold, and which of them a model is given."""

import inspect
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from ldm.errors import Fault

UNDERSTOOD = ("N", "sample", "ddim_steps", "ddim_eta", "unconditional_guidance_scale")
"""What every model's `log_images` knows; any other name goes only to a model whose signature has it."""

OWN = ("n_row", "use_ema_scope")
"""What the image logger itself follows."""

OLD = (
    "quantize_denoised",
    "inpaint",
    "plot_reconstruction",
    "plot_denoise_rows",
    "plot_progressive_rows",
    "plot_diffusion_rows",
    "plot_unscaled",
    "return_keys",
    "only_inputs",
    "log_samples",
)
"""Names of configs since 2022 that few models still know: accepted, so that those configs run."""


def known(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options as they are. Raises `Fault` CFG03 for a name that neither the image logger nor any model knows."""
    names = UNDERSTOOD + OWN + OLD
    for name in options:
        if name not in names:
            close = get_close_matches(str(name), names, 1)
            raise Fault(
                "CFG03",
                f"unknown setting log_images_kwargs.{name}",
                where="lightning.callbacks.image_logger.params.log_images_kwargs",
                why=f"it takes: {', '.join(names)}",
                fix=f"did you mean {close[0]}?" if close else "delete the line",
            )
    return dict(options)


def for_model(options: Mapping[str, Any], log_images: Callable[..., Any]) -> dict[str, Any]:
    """Those options that a model's `log_images` understands."""
    parameters = inspect.signature(log_images).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return {name: value for name, value in options.items() if name in parameters or (takes_any and name in UNDERSTOOD)}


def at_least_one(name: str, value: int) -> int:
    """`value`; raises `Fault` CFG03 below 1."""
    if value < 1:
        raise Fault(
            "CFG03",
            f"{name}: expected a whole number from 1 on, got {value}",
            where=f"lightning.callbacks.image_logger.params.{name}",
            fix="to draw nothing: lightning.callbacks.image_logger.params.disabled=true",
        )
    return value
