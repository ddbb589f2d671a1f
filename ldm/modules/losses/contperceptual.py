"""CompVis' loss of a KL autoencoder: distance, LPIPS, KL divergence and a patch discriminator.

Rombach et al. 2022, arXiv 2112.10752, section 3.1; Esser et al. 2021, arXiv 2012.09841.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.modules.losses.adaptive import Average, adaptive_weight
from ldm.modules.losses.discriminator import LOSSES, NLayerDiscriminator, generator_loss
from ldm.modules.losses.lpips import LPIPS, no_features
from ldm.modules.posterior import Posterior

LARGEST_WEIGHT = 1e4


@dataclass(frozen=True)
class LossAndLogs:
    """A loss to minimise, and its logged terms in CompVis' units: {name without `train/` or `val/`: number}."""

    loss: Tensor
    log: dict[str, Tensor]


class LPIPSWithDiscriminator(nn.Module):
    """Reconstruction, KL and adversarial loss; what is minimised is CompVis' sum divided by the numbers of a picture.

    CompVis sums over a picture (3 H W numbers): minimised in half precision, the gradients of such a sum overflow.
    Divided, every term keeps its share and Adam its steps. Everything here is computed in float32, the discriminator
    and LPIPS included: their gradients reach the last layer without the loss scale that would keep them above zero.

    disc_start           steps before the discriminator takes part
    logvar_init          log-variance of a pixel, one number; trained if `learn_logvar`
    kl_weight            of the KL divergence, which is summed over a latent
    pixelloss_weight     of the absolute difference
    perceptual_weight    of LPIPS; 0 does without it, and without its weights
    perceptual_path      a file with VGG16's weights under torchvision's names
    perceptual_features  `random` takes random ones instead, for trying things out
    disc_num_layers, disc_in_channels   shape of the discriminator
    disc_factor          0 does without the adversarial loss; disc_weight scales it beside the adaptive weight
    disc_loss            by what the discriminator learns
    disc_weight  of the adversarial loss, beside the adaptive weight
    use_actnorm, disc_conditional  false alone
    learn_logvar  train the log-variance of a pixel
    """

    keeps_float32 = True

    def __init__(
        self,
        disc_start: int,
        logvar_init: float = 0.0,
        kl_weight: float = 1.0,
        pixelloss_weight: float = 1.0,
        disc_num_layers: int = 3,
        disc_in_channels: int = 3,
        disc_factor: float = 1.0,
        disc_weight: float = 1.0,
        perceptual_weight: float = 1.0,
        use_actnorm: bool = False,
        disc_conditional: bool = False,
        disc_loss: Literal["hinge", "vanilla"] = "hinge",
        learn_logvar: bool = False,
        perceptual_path: str | None = None,
        perceptual_features: Literal["vgg16", "random"] = "vgg16",
    ) -> None:
        super().__init__()
        _refuse("use_actnorm", use_actnorm, "the discriminator normalises by batch")
        _refuse("disc_conditional", disc_conditional, "the discriminator sees pictures alone")
        self.disc_start = disc_start
        self.kl_weight = kl_weight
        self.pixel_weight = pixelloss_weight
        self.perceptual_weight = perceptual_weight
        self.disc_factor = disc_factor
        self.disc_weight = disc_weight
        self.disc_loss = LOSSES[disc_loss]
        self.logvar = nn.Parameter(torch.tensor(float(logvar_init)), requires_grad=learn_logvar)
        self.discriminator = NLayerDiscriminator(disc_in_channels, n_layers=disc_num_layers)
        self.perceptual_loss: LPIPS | None = None
        if perceptual_path and (perceptual_features == "random" or not perceptual_weight > 0):
            raise Fault(
                "CFG08",
                f"perceptual_path {perceptual_path} would not be read",
                where="model.params.lossconfig.params.perceptual_path",
                why="perceptual_features: random, or a perceptual_weight of 0, does without it",
                fix="leave out one of them",
            )
        if perceptual_weight > 0:
            if not perceptual_path and perceptual_features != "random":
                raise no_features()
            self.perceptual_loss = LPIPS(None if perceptual_features == "random" else perceptual_path)

    def takes_part(self, step: int) -> bool:
        """Whether the discriminator does, in the window after `step` completed ones."""
        return self.disc_factor > 0 and step >= self.disc_start

    def generator(
        self, real: Tensor, made: Tensor, posterior: Posterior, step: int, last_layer: Tensor | None, average: Average
    ) -> LossAndLogs:
        """The autoencoder's loss for pictures (b, 3, h, w) and what it made of them.

        `last_layer` is the weight at which the two forces are compared; None (in validation, where nothing has a
        gradient) leaves the adversarial term out of the loss. A weight that is not finite counts as 0. `Fault` CFG08
        for pictures that the discriminator is too deep for, also before it takes part.
        """
        if self.disc_factor > 0:
            self.discriminator.require_room(real)
        with full_precision(real):
            real, made = real.float(), made.float()
            numbers = real[0].numel()
            perceptual = self._perceptual(real, made)
            distance = (
                self.pixel_weight * (real - made).abs() + self.perceptual_weight * perceptual[:, None, None, None]
            )
            nll = (distance / self.logvar.exp() + self.logvar).mean()
            kl = posterior.kl().mean()
            loss = nll + self.kl_weight * kl / numbers
            weight = torch.zeros((), device=loss.device)
            log = {}
            if self.takes_part(step):
                push = generator_loss(self.discriminator(made))
                log["g_loss"] = push.detach()
                if last_layer is not None:
                    weight = adaptive_weight(nll, push, last_layer, average)
                    log["d_weight_lost"] = (~weight.isfinite()).float()
                    weight = torch.where(weight.isfinite(), weight.clamp(max=LARGEST_WEIGHT / numbers), 0.0)
                    weight = weight * self.disc_weight
                    loss = loss + weight * self.disc_factor * push
            log |= {
                "total_loss": numbers * loss.detach(),
                "logvar": self.logvar.detach().clone(),
                "kl_loss": kl.detach(),
                "nll_loss": numbers * nll.detach(),
                "rec_loss": distance.detach().mean(),
                "d_weight": numbers * weight,
                "disc_factor": torch.full((), self.disc_factor if self.takes_part(step) else 0.0, device=loss.device),
            }
            if self.perceptual_loss is not None:
                log["lpips"] = perceptual.detach().mean()
            return LossAndLogs(loss, log)

    def judge(self, real: Tensor, made: Tensor) -> LossAndLogs:
        """The discriminator's loss for real pictures and decoded ones (b, 3, h, w); no gradient leaves it."""
        with full_precision(real):
            of_real, of_made = (self.discriminator(some.detach().float()) for some in (real, made))
            loss = self.disc_factor * self.disc_loss(of_real, of_made)
            log = {"disc_loss": loss, "logits_real": of_real.mean(), "logits_fake": of_made.mean()}
            return LossAndLogs(loss, {name: value.detach() for name, value in log.items()})

    def _perceptual(self, real: Tensor, made: Tensor) -> Tensor:
        if self.perceptual_loss is None:
            return torch.zeros(len(real), device=real.device)
        return self.perceptual_loss(real, made)


@contextmanager
def full_precision(like: Tensor) -> Iterator[None]:
    """No autocast on the device of `like`, of any shape."""
    with torch.autocast(like.device.type, enabled=False):
        yield


def _refuse(name: str, value: bool, why: str) -> None:
    if value:
        where = f"model.params.lossconfig.params.{name}"
        raise Fault("CFG03", f"{name} is not available", where=where, why=why, fix="delete the line")
