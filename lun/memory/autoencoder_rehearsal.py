"""What a step and the pictures of an autoencoder take, which has two optimizers that take turns."""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from ldm.admission import admitted
from ldm.models.adversarial_passes import discriminator_pass, generator_pass
from ldm.models.autoencoder import AutoencoderKL
from ldm.models.diffusion.preview import previewing
from ldm.modules.losses import LPIPSWithDiscriminator
from ldm.modules.meta_init import give_memory
from ldm.training.window import Micro
from ldm.util import Recipe
from lun.memory.predicted_steps import Rehearsal, Turn


class AutoencoderRehearsal(Rehearsal):
    """A step in which all takes part: an encoder that trains and a discriminator that has begun."""

    model: AutoencoderKL

    @staticmethod
    def build(model: AutoencoderKL) -> None:
        """Raises `Fault` CFG03 without a loss."""
        if model.lossconfig is None:
            model.require_weights()
        model.ckpt_path, model.lossconfig = None, without_files(model.lossconfig or {})
        model.configure_model()
        assert model.loss is not None
        give_memory(model.loss)  # what is read from a file has none
        model.position.step = max(model.loss.disc_start, model.encoder_frozen_steps)
        model.equivariance = None  # which shrinks
        model.train()

    def turns(self) -> Sequence[Turn]:
        window: list[Micro] = []
        made = Turn(lambda: self.make(window), self.model.trained_groups())
        if not self.loss.takes_part(self.model.position.step):
            return [made]
        return [made, Turn(lambda: self.judge(window), [self.model.judging_group()])]

    def averaged(self) -> Iterator[nn.Parameter]:
        judging = {id(parameter) for parameter in self.loss.parameters()}
        return (parameter for parameter in super().averaged() if id(parameter) not in judging)

    @property
    def loss(self) -> LPIPSWithDiscriminator:
        assert self.model.loss is not None
        return self.model.loss

    def make(self, window: list[Micro]) -> None:
        """The generator's passes, which leave all pictures of the window behind."""
        window.clear()
        several = self.load.accumulate
        window += [Micro(self.pictures(), self.pictures(), {}) for _ in range(several - 2)]
        for _ in range(min(several, 2)):  # later ones find what the second does
            with self.precision.forward_context():
                batch = self.batch(self.load.batch)
                _, found = generator_pass(self.model, batch, lambda tensor: tensor, Tensor.backward)
            window.append(Micro(found.x0, found.made, {}))

    def judge(self, window: list[Micro]) -> None:
        with self.precision.forward_context():
            discriminator_pass(self.loss, window[-2:], Tensor.backward)

    def samples(self) -> None:
        if self.load.samples:
            with previewing(self.model), self.precision.forward_context():
                self.model.log_images(self.batch(self.load.batch), N=self.load.samples)

    def pictures(self) -> Tensor:
        return torch.empty(self.load.batch, 3, self.load.height, self.load.width)

    def batch(self, count: int) -> dict[str, Any]:
        pictures = torch.empty(count, self.load.height, self.load.width, 3)
        return {self.model.image_key: pictures, "slot": list(range(count))}


def without_files(loss: Recipe) -> Recipe:
    """The recipe of a loss whose perceptual features, if it has any, are random ones of the same size."""
    without = {"perceptual_path": None, "perceptual_features": "random"}
    known = signature(admitted(str(loss["target"]))).parameters
    return {**loss, "params": {**(loss.get("params") or {}), **{k: v for k, v in without.items() if k in known}}}
