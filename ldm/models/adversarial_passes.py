"""The forward and backward passes of an autoencoder's step, of each of its two optimizers; who steps is not said."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch import Tensor

from ldm.diffusion.draws import key
from ldm.models.autoencoder_metrics import Reconstructed
from ldm.modules.equivariance import STILL, Equivariance, Motion
from ldm.modules.losses.adaptive import Average
from ldm.modules.losses.contperceptual import LossAndLogs, LPIPSWithDiscriminator
from ldm.modules.posterior import Posterior
from ldm.position import Position
from ldm.training.window import Micro, mean_of, still

Backward = Callable[[Tensor], object]
"""The backward pass of a loss."""


class TrainedAutoencoder(Protocol):
    """What of an autoencoder its passes go through; `ldm.models.autoencoder.AutoencoderKL` is one."""

    seed: int
    position: Position
    network: Any
    loss: LPIPSWithDiscriminator | None
    equivariance: Equivariance | None
    downsampling: int

    def pictures(self, batch: Mapping[str, Any]) -> Tensor: ...

    def reconstruct(self, batch: Mapping[str, Any], motion: Motion) -> tuple[Tensor, Posterior]: ...


def generator_pass(
    model: TrainedAutoencoder, batch: Mapping[str, Any], average: Average, backward: Backward
) -> tuple[LossAndLogs, Reconstructed]:
    """Of the autoencoder's loss on a micro-batch: that loss, and what was made of the pictures.

    average  the mean of a tensor over all ranks
    """
    assert model.loss is not None
    moves = model.equivariance
    motion = moves(key(model.seed, "equivariance", model.position.step)) if moves else STILL
    with still(model.loss.discriminator):
        made, posterior = model.reconstruct(batch, motion)
        real, last = motion(model.pictures(batch), model.downsampling), model.network.decoder.conv_out.weight
        measured = model.loss.generator(real, made, posterior, model.position.step, last, average)
        backward(measured.loss)
    return measured, Reconstructed(model, batch, real, made.detach(), posterior)


def discriminator_pass(loss: LPIPSWithDiscriminator, window: Sequence[Micro], backward: Backward) -> dict[str, Tensor]:
    """Of the discriminator's loss on each micro-batch of a window: the means of what it logs."""
    judged = []
    for micro in window:
        measured = loss.judge(micro.real, micro.made)
        backward(measured.loss / len(window))
        judged.append(measured.log)
    return mean_of(judged)
