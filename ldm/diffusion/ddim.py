"""DDIM on any timesteps (Song et al. 2021, arXiv 2010.02502), with the interface of diffusers' schedulers.

diffusers' own steps down by a whole number of timesteps, whichever are visited: right only where they divide evenly.
"""

from typing import Any, NamedTuple

import torch
from diffusers.utils.torch_utils import randn_tensor
from torch import Tensor

from ldm.diffusion.path import DDPMPath
from ldm.diffusion.prediction import Prediction, x0_from


class Step(NamedTuple):
    """What a step of a diffusers scheduler returns."""

    prev_sample: Tensor


class DDIM:
    """Visits `timesteps` (n,) int64, from the noisiest on; behind the last lies the path's first alpha."""

    init_noise_sigma = 1.0

    def __init__(self, path: DDPMPath, prediction: Prediction, timesteps: Tensor) -> None:
        self.path = path
        self.prediction = prediction
        self.timesteps = timesteps
        self.following = dict(zip(timesteps.tolist(), [*timesteps.tolist()[1:], 0], strict=True))

    def scale_model_input(self, x: Tensor, t: Tensor) -> Tensor:
        return x

    def step(self, output: Tensor, t: Tensor, x: Tensor, eta: float = 0.0, generator: Any = None) -> Step:
        """x (b, ...) of the next timestep, from x and the network's output at t (eq. 12; `eta` of eq. 16)."""
        alpha, sigma = self.path.coefficients(torch.tensor([int(t)]))
        alpha_next, sigma_next = self.path.coefficients(torch.tensor([self.following[int(t)]]))
        x0 = x0_from(self.prediction, output, x, alpha, sigma)
        noise = (x - alpha * x0) / sigma
        added = eta * sigma_next / sigma * (1 - (alpha / alpha_next) ** 2).clamp(min=0).sqrt()
        x = alpha_next * x0 + (sigma_next**2 - added**2).clamp(min=0).sqrt() * noise
        if eta:
            x = x + added * randn_tensor(x.shape, generator=generator, device=x.device, dtype=x.dtype)
        return Step(x)
