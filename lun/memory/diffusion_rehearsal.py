"""What a step and the pictures of a diffusion model take."""

from collections.abc import Sequence
from typing import Any

import torch

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.sampling.guidance import Guidance, guided
from ldm.models.diffusion.ddpm import DDPM
from ldm.models.diffusion.inpainting import KEPT
from ldm.models.diffusion.preview import previewing
from ldm.modules.meta_init import give_memory
from ldm.training.quantised import quantise
from lun.memory.elsewhere import moments_of
from lun.memory.predicted_steps import Rehearsal, Turn


class DiffusionRehearsal(Rehearsal):
    """Encoding, conditioning, prediction; a step of the solver with guidance, and decoding."""

    model: DDPM

    @staticmethod
    def build(model: DDPM) -> None:
        networks = {name: part.build_on_meta() for name, part in model.part_recipes().items()}
        for network in networks.values():
            give_memory(network)
        model.adopt(networks)
        for network in networks.values():
            quantise(network)
        model.train()

    def turns(self) -> Sequence[Turn]:
        return [Turn(self.window, self.model.trained_groups())]

    def window(self) -> None:
        for _ in range(min(self.load.accumulate, 2)):  # later ones find what the second does
            self.micro_batch()

    def micro_batch(self) -> None:
        """A forward and a backward pass; gradients of the one before are there."""
        model, count = self.model, self.load.batch
        draws = BatchDraws(0, range(count))
        with self.precision.forward_context():
            batch = self.batch()
            x0 = model.encode(batch, draws)
            loss = model.losses(x0, model.condition(batch, None, x0), draws, batch).weighted.mean()
        loss.backward()

    def samples(self) -> None:
        model, count = self.model, self.load.samples
        if not count:
            return
        assert model.model is not None
        with previewing(model), self.precision.forward_context():
            noise = torch.empty(count, model.channels, model.image_size, model.image_size)
            network: Any = model.model
            conditionings = model.condition_on([""] * count), model.unconditional([""] * count)
            predict = guided(network, *conditionings, Guidance(2.0), model.objective.path, model.objective.prediction)
            predict(noise, torch.zeros(count, dtype=torch.int64))
            model.decode(noise)

    def batch(self) -> dict[str, Any]:
        load = self.load
        batch: dict[str, Any] = {"caption": [""] * load.batch, "slot": list(range(load.batch))}
        if load.cached:
            batch["moments"] = moments_of(self.model, load.batch, load)
        else:
            batch[self.model.first_stage_key] = torch.empty(load.batch, load.height, load.width, 3)
        if getattr(self.model, "mask", None):  # drawn by looking at values, so it is given
            pixels = self.model.first_stage_model.downsampling
            batch[KEPT] = torch.empty(load.batch, 1 + self.model.channels, load.height // pixels, load.width // pixels)
        return batch
