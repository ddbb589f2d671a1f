"""The names that `log_images_kwargs` of a config may hold, and which of them a model is given."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from ldm.diffusion.sampling.guidance import Guidance
from ldm.errors import Fault
from lun.config.schema import mismatch
from lun.previews.prompt_grammar import REFINED

T = TypeVar("T")

WHERE = "lightning.callbacks.image_logger.params.log_images_kwargs"

UNDERSTOOD = ("N", "sample", "ddim_steps", "ddim_eta", "unconditional_guidance_scale")
"""What every model's `log_images` knows; any other name goes only to a model whose signature has it."""

OWN = ("n_row", "use_ema_scope", "return_keys", "only_inputs", "log_samples")
"""What the image logger itself follows."""

PLOTTED = (
    "inpaint",
    "plot_reconstruction",
    "plot_denoise_rows",
    "plot_progressive_rows",
    "plot_diffusion_rows",
    "plot_unscaled",
    "quantize_denoised",
)
"""Pictures that not every model draws; false asks for nothing."""

UNCHANGED = ("plot_diffusion_rows", "plot_reconstruction")
"""Of these, what does not depend on the trained weights."""

SAMPLED = ("samples", "samples_unscaled", "denoise_row", "progressive_row", "samples_inpainting", "samples_outpainting")
"""Pictures that a model draws with its trained weights, so that with averaged ones they are others."""


_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("N", "ddim_steps", "n_row"), int),
    **dict.fromkeys(("ddim_eta", "unconditional_guidance_scale", *REFINED), float),
    **dict.fromkeys(("sample", "use_ema_scope", "only_inputs", "log_samples", *PLOTTED), bool | int),
    "return_keys": Sequence[str],
}


def known(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that say something, as they are; null says nothing.

    Raises `Fault` CFG03 for a name that neither the image logger nor any model knows, and for a value of another kind
    than it takes, CFG08 for what would refine a guidance that there is not.
    """
    names = UNDERSTOOD + OWN + PLOTTED + REFINED
    options = {name: value for name, value in options.items() if value is not None}
    for name in options:
        if name not in names:
            close = get_close_matches(str(name), names, 1)
            raise Fault(
                "CFG03",
                f"unknown setting log_images_kwargs.{name}",
                where=WHERE,
                why=f"it takes: {', '.join(names)}",
                fix=f"did you mean {close[0]}?" if close else "delete the line",
            )
        if problem := mismatch(options[name], _KINDS[name]):
            raise Fault("CFG03", f"log_images_kwargs.{name}: {problem}", where=WHERE)
    if refined := {name.removeprefix("guidance_"): options[name] for name in REFINED if name in options}:
        Guidance(options.get("unconditional_guidance_scale", 1.0), **refined)
    return options


def for_model(options: Mapping[str, Any], log_images: Callable[..., Any]) -> dict[str, Any]:
    """Those options that a model's `log_images` understands; `Fault` CFG03 for a picture that it does not draw."""
    parameters = inspect.signature(log_images).parameters
    absent = [name for name in PLOTTED + REFINED if options.get(name) and name not in parameters]
    if absent:
        raise Fault(
            "CFG03",
            f"this model draws nothing for log_images_kwargs.{absent[0]}",
            where=f"{WHERE}.{absent[0]}",
            why=f"it takes: {', '.join(name for name in parameters if name in UNDERSTOOD + PLOTTED + REFINED)}",
            fix="delete the line",
        )
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return {name: value for name, value in options.items() if name in parameters or (takes_any and name in UNDERSTOOD)}


def not_again(options: Mapping[str, Any], log_images: Callable[..., Any]) -> dict[str, Any]:
    """`options` for later pictures: a frozen first stage makes of them what it made before, so it is not asked again.

    Models that train theirs take no `plot_reconstruction`; a config that names it means it.
    """
    takes = "plot_reconstruction" in inspect.signature(log_images).parameters
    return {"plot_reconstruction": False, **options} if takes else dict(options)


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


def chosen(pictures: Mapping[str, T], options: Mapping[str, Any]) -> dict[str, T]:
    """What of a batch's pictures is shown: `only_inputs`, or `return_keys` where one of them is there, or all."""
    wanted = ["inputs"] if options.get("only_inputs") else options.get("return_keys") or ()
    return {key: picture for key, picture in pictures.items() if key in wanted} or dict(pictures)
