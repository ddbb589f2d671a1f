"""The list of pictures to draw, each with all of its settings."""

import argparse
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldm.diffusion.guidance import Guidance
from ldm.diffusion.sampler import Scheduler, solver_for
from ldm.errors import Fault
from ldm.models.diffusion.ddpm import DDPM, LatentDiffusion
from ldm.models.diffusion.picture_size import pixels_per_latent
from ldm.models.diffusion.preview import Sampling
from ldm.modules.encoders.captions import Caption, for_each, most_told
from lun.previews.prompts import REFINED, Prompt

DEFAULTS = {
    "steps": 50,
    "guidance": 7.5,
    "guidance_rescale": 0.0,
    "guidance_low": 0.0,
    "guidance_high": None,
    "scheduler": "ddim",
    "negative": "",
}


@dataclass(frozen=True)
class Picture:
    """One picture to draw; width and height in pixels."""

    prompt: str
    negative: str
    seed: int
    width: int
    height: int
    steps: int
    guidance: float
    scheduler: Scheduler
    guidance_rescale: float = 0.0
    guidance_low: float = 0.0
    guidance_high: float | None = None
    prompt_2: str | None = None
    prompt_3: str | None = None

    @property
    def caption(self) -> Caption:
        """What the text encoders are told."""
        return for_each(self.prompt, [self.prompt_2, self.prompt_3])

    @property
    def how(self) -> Sampling:
        """How it is drawn. Raises `Fault` for what cannot be."""
        refined = {name.removeprefix("guidance_"): getattr(self, name) for name in REFINED}
        return Sampling(self.steps, Guidance(self.guidance, **refined), scheduler=self.scheduler)

    @property
    def alike(self) -> tuple[Any, ...]:
        """What pictures have to share to be drawn at once."""
        return self.width, self.height, self.how


def list_pictures(
    prompts: Sequence[Prompt], asked: argparse.Namespace, run: Mapping[str, Any], model: DDPM
) -> list[Picture]:
    """`--count` pictures of each prompt: its own settings, then the command line's, the run's and the defaults.

    Without a seed of its own a picture has `--seed` plus its place. Raises `Fault` CLI03 for sizes that the model
    cannot draw, CFG03 for an unknown scheduler, and steps or guidance that cannot be.
    """
    side = model.image_size * pixels_per_latent(model)
    width, height = asked.size or (side, side)
    given = {name: getattr(asked, name) for name in DEFAULTS if getattr(asked, name) is not None}
    run = {name: value for name, value in run.items() if name in DEFAULTS}
    base = {**DEFAULTS, "width": width, "height": height, **run, **given}
    first = secrets.randbelow(2**31) if asked.seed == -1 else asked.seed
    copies = [(prompt, copy) for prompt in prompts for copy in range(asked.count)]
    pictures = []
    for place, (prompt, copy) in enumerate(copies):
        settings = {**base, **prompt.settings}
        if settings["guidance"] == 1:  # nothing is left of what the run says of its own guidance
            settings |= {name: DEFAULTS[name] for name in REFINED if name not in {**given, **prompt.settings}}
        settings["seed"] = settings["seed"] + copy if "seed" in settings else first + place
        pictures.append(Picture(prompt.text, **settings))
    for picture in pictures:
        _require_possible(picture, model)
    return pictures


def batches(pictures: Sequence[Picture], size: int) -> Iterator[list[Picture]]:
    """Up to `size` neighbours that are drawn alike."""
    batch: list[Picture] = []
    for picture in pictures:
        if batch and (picture.alike != batch[0].alike or len(batch) == size):
            yield batch
            batch = []
        batch.append(picture)
    if batch:
        yield batch


def _require_possible(picture: Picture, model: DDPM) -> None:
    how = picture.how
    encoders = model.conditioner.told if isinstance(model, LatentDiffusion) else 1
    if (most := most_told([picture.caption])) > encoders:
        what = f"prompt_{most} of {picture.prompt!r} has no effect: the model has {encoders} of text encoders"
        raise Fault("CFG08", what, where="--prompts", fix="leave it out")
    solver_for(model.objective.path, model.objective.prediction, how.scheduler, how.steps)
    step = max(pixels_per_latent(model), model.side_unit())
    side = model.image_size * pixels_per_latent(model)
    size = f"{picture.width}x{picture.height}"
    if picture.width % step or picture.height % step or min(picture.width, picture.height) < step:
        near = f"{max(step, picture.width // step * step)}x{max(step, picture.height // step * step)}"
        why = f"sides are multiples of {step} pixels"
        raise Fault("CLI03", f"a picture of {size} cannot be drawn", where="--size", why=why, fix=f"--size {near}")
    if getattr(model, "mask", None) and (picture.width, picture.height) != (side, side):
        what = f"a model for inpainting draws {side}x{side} alone, not {size}"
        raise Fault("CLI03", what, where="--size", fix=f"--size {side}")
