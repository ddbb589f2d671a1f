"""How strongly the discriminator may pull: as strongly as the reconstruction does, at the decoder's last layer."""

from collections.abc import Callable

import torch
from torch import Tensor

Average = Callable[[Tensor], Tensor]
"""The mean of a tensor over all ranks."""


def adaptive_weight(reconstruction: Tensor, adversarial: Tensor, last_layer: Tensor, average: Average) -> Tensor:
    """Norm of the reconstruction loss' gradient by `last_layer` over that of the adversarial loss' (Esser et al. 2021,
    arXiv 2012.09841, equation 7), without gradient: a float32 scalar.

    Both losses have to be unscaled: a loss scale would make the first norm infinite in float16. Gradients are averaged
    over ranks first, so that all of them weigh alike and as one process would.
    """
    pull = _norm(reconstruction, last_layer, average)
    push = _norm(adversarial, last_layer, average)
    return pull / (push + 1e-4)


def _norm(loss: Tensor, last_layer: Tensor, average: Average) -> Tensor:
    (gradient,) = torch.autograd.grad(loss, last_layer, retain_graph=True)
    return average(gradient.detach().float()).norm()
