"""DDIM on any levels of any path (Song et al. 2021, arXiv 2010.02502), with the interface of diffusers' schedulers.

diffusers' own steps down by a whole number of timesteps, whichever are visited: right only where they divide evenly.
Without noise its step is x_s = alpha_s x_0 + sigma_s noise, which is Euler's; `Euler` computes it in fewer roundings.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from ldm.diffusion.path import Path, rounded_to_one
from ldm.diffusion.prediction import Prediction, determinant, pair, x0_from


class SolverStep(NamedTuple):
    """What a step of a diffusers scheduler returns."""

    prev_sample: Tensor


class Walk:
    """The levels `grid` (n + 1,) of a path that a solver visits, but for the last, at which it arrives."""

    init_noise_sigma = 1.0

    def __init__(self, path: Path, prediction: Prediction, grid: Tensor) -> None:
        self.path = path
        self.prediction = prediction
        self.timesteps = grid[:-1]
        self.following = dict(zip(grid[:-1].tolist(), grid[1:].tolist(), strict=True))

    def scale_model_input(self, x: Tensor, t: Tensor) -> Tensor:
        """x (b, c, h, w) as it is: the network is a path's, which scales its own input."""
        return x

    def coefficients(self, t: float, x: Tensor) -> tuple[Tensor, Tensor]:
        """alpha and sigma (1,) of a level, where x is."""
        return self.path.coefficients(torch.tensor([t], dtype=self.timesteps.dtype, device=x.device))

    def x0_at(self, t: float, output: Tensor, x: Tensor) -> Tensor:
        """The x_0 (b, ...) that the network's output (b, ...) stands for."""
        return x0_from(self.prediction, output, x, *self.coefficients(t, x))


class DDIM(Walk):
    """Eq. 12 of the paper from level to level."""

    def step(self, output: Tensor, t: Tensor, x: Tensor, eta: float = 0.0, generator: Any = None) -> SolverStep:
        """x (b, ...) of the next level, from x and the network's output at t; `eta` as in eq. 16.

        The noise added is eta times the standard deviation of x_s given x_t and x_0, which eq. 16 writes for
        alpha^2 + sigma^2 = 1.
        """
        from diffusers.utils.torch_utils import randn_tensor

        alpha, sigma = self.coefficients(t.item(), x)
        alpha_next, sigma_next = self.coefficients(self.following[t.item()], x)
        x0 = self.x0_at(t.item(), output, x)
        noise = (x - alpha * x0) / sigma
        power, power_next = rounded_to_one(alpha**2 + sigma**2), rounded_to_one(alpha_next**2 + sigma_next**2)
        removed = power - (alpha / alpha_next) ** 2 * power_next
        added = eta * sigma_next / sigma * removed.clamp(min=0).sqrt()
        x = alpha_next * x0 + (sigma_next**2 - added**2).clamp(min=0).sqrt() * noise
        if eta:
            x = x + added * randn_tensor(x.shape, generator=generator, device=x.device, dtype=x.dtype)
        return SolverStep(x)


class Euler(Walk):
    """x_s = alpha_s x_0 + sigma_s noise as a multiple of x_t and of the network's output."""

    def step(self, output: Tensor, t: Tensor, x: Tensor) -> SolverStep:
        """x (b, ...) of the next level, from x and the network's output at t.

        With `output = a x_0 + b noise` that is x_s = ((a sigma_s - b alpha_s) x_t + (alpha_s sigma - sigma_s alpha)
        output) / D. On a straight line it is x_t + (sigma_s - sigma) output, to the bit.
        """
        alpha, sigma = self.coefficients(t.item(), x)
        alpha_next, sigma_next = self.coefficients(self.following[t.item()], x)
        a, b = pair(self.prediction, alpha, sigma)
        d = determinant(self.prediction, alpha, sigma)
        kept = rounded_to_one((a * sigma_next - b * alpha_next) / d)
        straight = (rounded_to_one(alpha + sigma) == 1) & (rounded_to_one(alpha_next + sigma_next) == 1)
        moved = torch.where(straight, sigma - sigma_next, alpha_next * sigma - sigma_next * alpha) / d
        return SolverStep(kept * x + moved * output)
