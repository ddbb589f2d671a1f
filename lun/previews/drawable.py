"""Whether a model can draw a prompt, asked before anything is drawn, and how large."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ldm.diffusion.sampling.guidance import Guidance
from ldm.diffusion.sampling.sampler import solver_for
from ldm.errors import Fault
from ldm.models.diffusion.ddpm import DDPM, LatentDiffusion
from ldm.models.diffusion.picture_size import Sides, pixels_per_latent
from ldm.models.diffusion.preview import Sampling
from ldm.modules.encoders.captions import Caption, most_captions
from lun.previews.prompt_grammar import REFINED, Prompt
from lun.previews.prompts import how_of

OF_A_LINE, OF_A_PROMPT = "--size {}x{}", "--w {} --h {}"
"""How a size is said to `lun.sample`, and by a prompt."""


def own_side(model: DDPM) -> int:
    """Pixels a side of the pictures that a model draws where nothing else is said."""
    return model.image_size * pixels_per_latent(model)


def sides_of(prompt: Prompt, model: DDPM) -> Sides | None:
    """(h, w) of what is noised for a prompt, None where it says nothing of it."""
    if not {"width", "height"} & prompt.settings.keys():
        return None
    step, side = pixels_per_latent(model), own_side(model)
    return prompt.settings.get("height", side) // step, prompt.settings.get("width", side) // step


def require_previewable(prompt: Prompt, options: Mapping[str, Any], model: DDPM) -> None:
    """Raise `Fault` for a prompt that previews by these `log_images_kwargs` cannot draw."""
    how, side = how_of(prompt, options), own_side(model)
    with written_at(prompt.where):
        refined = {name.removeprefix("guidance_"): how[name] for name in REFINED if name in how}
        guidance = Guidance(how["guidance"], **refined)
        sampling = Sampling(how["steps"], guidance, scheduler=how.get("scheduler", "ddim"))
        require_drawable(model, prompt.caption, sampling)
        require_size(model, prompt.settings.get("width", side), prompt.settings.get("height", side), OF_A_PROMPT)


@contextmanager
def written_at(where: str) -> Iterator[None]:
    """Let a `Fault` say where its prompt is written, if that is known."""
    try:
        yield
    except Fault as fault:
        fault.where = where or fault.where
        raise


def require_drawable(model: DDPM, caption: Caption, how: Sampling) -> None:
    """Raise `Fault` CFG08 for texts of encoders that the model lacks, CFG03 for impossible steps and schedulers."""
    encoders = model.conditioner.text_encoder_count if isinstance(model, LatentDiffusion) else 1
    if (most := most_captions([caption])) > encoders:
        what = f"prompt_{most} of {caption[0]!r} has no effect: the model has {encoders} of text encoders"
        raise Fault("CFG08", what, where="--prompts", fix="leave it out")
    solver_for(model.objective.path, model.objective.prediction, how.scheduler, how.steps)


def require_size(model: DDPM, width: int, height: int, spelt: str) -> None:
    """Raise `Fault` CLI03 for a size in pixels that the model cannot draw.

    spelt  how a size is said there: `OF_A_LINE` or `OF_A_PROMPT`
    """
    step, side = max(pixels_per_latent(model), model.side_unit()), own_side(model)
    size = f"{width}x{height}"
    if width % step or height % step or min(width, height) < step:
        near = spelt.format(max(step, width // step * step), max(step, height // step * step))
        why = f"sides are multiples of {step} pixels"
        raise Fault("CLI03", f"a picture of {size} cannot be drawn", where="--size", why=why, fix=near)
    if getattr(model, "mask", None) and (width, height) != (side, side):
        what = f"a model for inpainting draws {side}x{side} alone, not {size}"
        raise Fault("CLI03", what, where="--size", fix=spelt.format(side, side))
