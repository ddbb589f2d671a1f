"""The list of pictures to draw, each with all of its settings."""

import argparse
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ldm.diffusion.sampling.guidance import Guidance
from ldm.errors import Fault
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.preview import Sampling
from ldm.modules.encoders.captions import Caption, for_each
from ldm.scheduler_names import Scheduler
from lun.previews.drawable import OF_A_LINE, OF_A_PROMPT, own_side, require_drawable, require_size, written_at
from lun.previews.prompt_grammar import REFINED, Prompt
from lun.previews.prompts import require_guided

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
        """What the text encoders are given."""
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
    width, height = asked.size or (own_side(model), own_side(model))
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
        require_guided(prompt, settings["guidance"])
        pictures.append(_drawable(prompt, Picture(prompt.text, **settings), model))
    if asked.negative and all(picture.guidance == 1 for picture in pictures):
        fix = "leave it out, or --guidance 5"
        raise Fault("CFG08", "--negative has no effect without guidance", where="--negative", fix=fix)
    return pictures


def _drawable(prompt: Prompt, picture: Picture, model: DDPM) -> Picture:
    with written_at(prompt.where):
        require_drawable(model, picture.caption, picture.how)
    own = bool({"width", "height"} & prompt.settings.keys())
    with written_at(prompt.where if own else ""):
        require_size(model, picture.width, picture.height, OF_A_PROMPT if own else OF_A_LINE)
    return picture


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
