"""The patch discriminator (Isola et al. 2017, arXiv 1611.07004) and the losses by which it learns."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ldm.errors import Fault
from ldm.modules.losses.batch_norm import BatchNorm

SLOPE = 0.2


class NLayerDiscriminator(nn.Module):
    """Separates real from decoded patches: (b, c, h, w) to one logit for each overlapping patch, (b, 1, h', w').

    Layers, their order and their names are those of CompVis' checkpoints (`main.0.weight` ...).
    """

    def __init__(self, input_nc: int = 3, ndf: int = 64, n_layers: int = 3) -> None:
        super().__init__()
        widths = [ndf * min(2**level, 8) for level in range(n_layers + 1)]
        layers: list[nn.Module] = [nn.Conv2d(input_nc, ndf, 4, stride=2, padding=1), nn.LeakyReLU(SLOPE)]
        for level in range(1, n_layers + 1):
            stride = 2 if level < n_layers else 1
            layers += [
                nn.Conv2d(widths[level - 1], widths[level], 4, stride=stride, padding=1, bias=False),
                BatchNorm(widths[level]),
                nn.LeakyReLU(SLOPE),
            ]
        self.main = nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 4, padding=1))
        self.n_layers = n_layers
        self.apply(_start)

    @property
    def smallest(self) -> int:
        """The least side of a picture, in pixels, that leaves one patch."""
        return 3 * 2**self.n_layers

    def require_room(self, pictures: Tensor) -> None:
        """Raise `Fault` CFG08 for pictures (b, c, h, w) in which not a single patch fits."""
        height, width = pictures.shape[-2:]
        if min(height, width) >= self.smallest:
            return
        most = int(math.log2(min(height, width) / 3)) if min(height, width) >= 3 else 0
        raise Fault(
            "CFG08",
            f"pictures of {width} x {height} pixels are too small for a discriminator of {self.n_layers} layers",
            where="model.params.lossconfig.params.disc_num_layers",
            why=f"a side needs at least {self.smallest} pixels",
            fix=f"disc_num_layers: {most}, or larger pictures" if most else "larger pictures, or disc_factor: 0",
        )

    def forward(self, pictures: Tensor) -> Tensor:
        return self.main(pictures)


def _start(layer: nn.Module) -> None:
    """Small weights, as in CompVis' code (and DCGAN before it)."""
    if isinstance(layer, nn.Conv2d):
        nn.init.normal_(layer.weight, 0.0, 0.02)
    elif isinstance(layer, nn.BatchNorm2d):
        nn.init.normal_(layer.weight, 1.0, 0.02)
        nn.init.zeros_(layer.bias)


def hinge(real: Tensor, fake: Tensor) -> Tensor:
    """Half of mean max(0, 1 - real) + mean max(0, 1 + fake), over logits of any shape."""
    return 0.5 * (F.relu(1.0 - real).mean() + F.relu(1.0 + fake).mean())


def vanilla(real: Tensor, fake: Tensor) -> Tensor:
    """Half of the two cross-entropies of logits (b, 1, h, w): mean softplus(-real) + mean softplus(fake)."""
    return 0.5 * (F.softplus(-real).mean() + F.softplus(fake).mean())


LOSSES = {"hinge": hinge, "vanilla": vanilla}


def generator_loss(fake: Tensor) -> Tensor:
    """What the generator lowers: minus the mean logit (b, 1, h, w) of what it made."""
    return -torch.mean(fake)
