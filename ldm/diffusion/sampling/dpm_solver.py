"""DPM-Solver++ (2M) on any path (Lu et al. 2022, arXiv 2211.01095, alg. 2), as diffusers has it for its own paths.

diffusers' on rectified flow gives the network the time as a whole number, and begins short of pure noise.
"""

import torch
from torch import Tensor

from ldm.diffusion.sampling.ddim import SolverStep, Walk


class DPMSolver(Walk):
    """Two steps' x_0 extrapolated in ln(alpha / sigma); one where there is no second, and for the step to the end."""

    previous: tuple[Tensor, Tensor] | None = None

    def step(self, output: Tensor, t: Tensor, x: Tensor) -> SolverStep:
        """x (b, ...) of the next level, from x and the network's output at t."""
        alpha, sigma = self.coefficients(t.item(), x)
        alpha_next, sigma_next = self.coefficients(self.following[t.item()], x)
        x0_now = x0 = self.x0_at(t.item(), output, x)
        stride = (alpha_next * sigma / (alpha * sigma_next)).log()  # infinite from pure noise, and to a clean end
        if self.previous is not None:
            x0_before, stride_before = self.previous
            x0 = torch.where(stride.isinf(), x0_now, x0_now + (stride / stride_before) / 2 * (x0_now - x0_before))
        self.previous = x0_now, stride
        return SolverStep(sigma_next / sigma * x + (alpha_next - alpha * sigma_next / sigma) * x0)
