"""Pictures for people: inputs, reconstructions and samples. They draw from their own random streams."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws, key
from ldm.diffusion.objective import Network, Objective
from ldm.diffusion.sampling.guidance import UNGUIDED, Guidance
from ldm.diffusion.sampling.sampler import sample
from ldm.errors import Fault
from ldm.models.diffusion.picture_size import Sides
from ldm.modules.encoders.captions import Caption
from ldm.scheduler_names import Scheduler


class PreviewedDiffusion(Protocol):
    """The side of a diffusion model that pictures are drawn from; `ldm.models.diffusion.ddpm.DDPM` is one."""

    model: Any
    objective: Objective
    channels: int
    image_size: int
    first_stage_key: str
    training: bool

    @property
    def device(self) -> torch.device: ...

    def train(self, mode: bool = True) -> Any: ...

    def draws(self, batch: Mapping[str, Any]) -> BatchDraws: ...

    def encode(self, batch: Mapping[str, Any], draws: BatchDraws) -> Tensor: ...

    def decode(self, x0: Tensor) -> Tensor: ...

    def condition_on(self, captions: list[Caption], sides: Sides | None = None) -> Conditioning: ...

    def unconditional(self, negatives: list[str], sides: Sides | None = None) -> Conditioning | None: ...


@contextmanager
def previewing(model: PreviewedDiffusion) -> Iterator[None]:
    """Evaluation mode without gradients, and the mode as it was afterwards."""
    training = model.training
    model.train(False)
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


@dataclass(frozen=True)
class Sampling:
    """How samples are drawn: solver and its steps, guidance and, for noise within sampling, eta.

    Raises `Fault` CFG03 for an eta that is no finite number from 0 on.
    """

    steps: int = 50
    guidance: Guidance = UNGUIDED
    eta: float = 0.0
    scheduler: Scheduler = "ddim"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.eta) and self.eta >= 0):
            raise Fault("CFG03", f"eta={self.eta} of samples", why="it has to be a finite number from 0 on")


def sample_clean(
    model: PreviewedDiffusion,
    captions: Sequence[Caption],
    seeds: Sequence[int],
    how: Sampling,
    sides: Sides | None = None,
    negatives: Sequence[str] = (),
    network: Network | None = None,
    before: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Samples before they are decoded: (n, c, h, w).

    A sample depends on its caption and seed alone, not on what is drawn beside it.

    sides      (h, w) of what is noised; by default a square of the model's `image_size`
    negatives  a caption for each that guidance leads away from, by default the empty one
    network    what predicts, by default the model's own
    before     see `ldm.diffusion.sampling.sampler.sample`
    """
    shape = (model.channels, *(sides or (model.image_size, model.image_size)))
    generators = [torch.Generator().manual_seed(key(seed, "sample")) for seed in seeds]
    noise = torch.stack([torch.randn(shape, generator=generator) for generator in generators]).to(model.device)
    guided = not how.guidance.is_none
    return sample(
        network or model.model,
        model.objective.path,
        model.objective.prediction,
        model.condition_on(list(captions), sides),
        model.unconditional(list(negatives) or [""] * len(captions), sides) if guided else None,
        noise,
        steps=how.steps,
        guidance=how.guidance,
        eta=how.eta,
        scheduler=how.scheduler,
        generator=generators,
        before=before,
    )
