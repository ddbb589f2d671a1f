"""The Gaussian that an encoder gives for a picture's latent."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ldm.transfers import to_device


@dataclass(frozen=True)
class Posterior:
    """A diagonal Gaussian, always float32: in half precision the variance overflows from a log-variance of 11.1 on.

    mean, log_variance: (b, z, h, w), the latter within [-30, 20]
    """

    mean: Tensor
    log_variance: Tensor

    @classmethod
    def of(cls, moments: Tensor) -> "Posterior":
        """From an encoder's output, mean and log-variance joined: (b, 2 z, h, w) of any dtype."""
        mean, log_variance = moments.float().chunk(2, dim=1)
        return cls(mean, log_variance.clamp(-30.0, 20.0))

    def sample(self, noise: Tensor) -> Tensor:
        """The latent that standard normal `noise` (b, z, h, w) stands for, wherever that was drawn."""
        return self.mean + (0.5 * self.log_variance).exp() * to_device(noise, self.mean.device).to(self.mean)

    def kl(self) -> Tensor:
        """Kullback-Leibler divergence from the standard normal, summed over a latent: (b,)."""
        with torch.autocast(self.mean.device.type, enabled=False):
            terms = self.mean.square() + self.log_variance.exp() - 1.0 - self.log_variance
            return 0.5 * terms.sum(dim=(1, 2, 3))
