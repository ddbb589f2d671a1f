"""Pictures for people: inputs, reconstructions and samples. They draw from their own random streams."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws, key
from ldm.diffusion.objective import Objective
from ldm.diffusion.sampler import Scheduler, sample


class Previewed(Protocol):
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

    def condition_on(self, captions: list[str]) -> Conditioning: ...

    def unconditional(self, count: int) -> Conditioning | None: ...


@contextmanager
def previewing(model: Previewed) -> Iterator[None]:
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
    """How samples are drawn: solver and its steps, guidance scale (1 is none) and, for noise within sampling, eta."""

    steps: int = 50
    guidance: float = 1.0
    eta: float = 0.0
    scheduler: Scheduler = "ddim"


def sample_captions(
    model: Previewed,
    captions: Sequence[str],
    seeds: Sequence[int],
    how: Sampling,
    sides: tuple[int, int] | None = None,
) -> Tensor:
    """One sample a caption, the noise of each from its own seed: (n, 3, H, W) in about [-1, 1]."""
    return model.decode(sample_clean(model, captions, seeds, how, sides))


def sample_clean(
    model: Previewed,
    captions: Sequence[str],
    seeds: Sequence[int],
    how: Sampling,
    sides: tuple[int, int] | None = None,
    negatives: Sequence[str] = (),
) -> Tensor:
    """Samples before they are decoded: (n, c, h, w).

    A sample depends on its caption and seed alone, not on what is drawn beside it.

    sides      (h, w) of what is noised; by default a square of the model's `image_size`
    negatives  a caption for each that guidance leads away from, by default the empty one
    """
    shape = (model.channels, *(sides or (model.image_size, model.image_size)))
    generators = [torch.Generator().manual_seed(key(seed, "sample")) for seed in seeds]
    noise = torch.stack([torch.randn(shape, generator=generator) for generator in generators]).to(model.device)
    guided = how.guidance != 1.0
    return sample(
        model.model,
        model.objective.path,
        model.objective.prediction,
        model.condition_on(list(captions)),
        _led_away_from(model, len(captions), negatives) if guided else None,
        noise,
        steps=how.steps,
        guidance=how.guidance,
        eta=how.eta,
        scheduler=how.scheduler,
        generator=generators,
    )


def _led_away_from(model: Previewed, count: int, negatives: Sequence[str]) -> Conditioning | None:
    return model.condition_on(list(negatives)) if any(negatives) else model.unconditional(count)


def log_images(model: Previewed, batch: dict[str, Any], count: int, how: Sampling | None) -> dict[str, Tensor]:
    """Pictures of the first `count` examples of a batch, each (n, 3, H, W) in about [-1, 1].

    inputs, reconstruction (encoded and decoded again, by a latent model) and, unless `how` is None, samples of their
    captions, in the size of the batch. A batch of cached moments has no inputs to show.
    """
    with previewing(model):
        few = {name: value[:count] for name, value in batch.items()}
        x0 = model.encode(few, model.draws(few))
        shown = {} if "moments" in few else {"inputs": few[model.first_stage_key].movedim(-1, 1)}
        if "inputs" not in shown or x0.shape != shown["inputs"].shape:
            shown["reconstruction"] = model.decode(x0)
        if how is not None:
            seeds = [int(slot) for slot in few["slot"]]
            captions = few.get("caption", [""] * len(seeds))
            shown["samples"] = sample_captions(model, captions, seeds, how, (x0.shape[-2], x0.shape[-1]))
        return shown
