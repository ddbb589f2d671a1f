"""The path from data to noise, `x_t = alpha x_0 + sigma noise`: how much of each is left at every timestep."""

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from ldm.errors import Fault

BetaSchedule = Literal["linear", "cosine", "sqrt_linear", "sqrt"]


class DDPMPath(nn.Module):
    """The variance-preserving path of DDPM (Ho et al. 2020, arXiv 2006.11239): alpha^2 + sigma^2 = 1, in discrete time.

    timesteps          t runs from 0 (nearly clean) to timesteps - 1 (nearly or wholly noise)
    beta_schedule      in CompVis' words: "linear" is linear in sqrt(beta) (diffusers: scaled_linear), "sqrt_linear" is
                       linear in beta (diffusers: linear), "sqrt" is the root of a line, "cosine" is Nichol & Dhariwal's
    linear_start       first beta, or with "sqrt" its square; not used by "cosine"
    linear_end         last beta, likewise
    cosine_s           offset of "cosine"
    zero_terminal_snr  no signal at all is left at the last timestep; needs a prediction of v or x0

    The tables `betas`, `alphas_cumprod`, `alpha` and `sigma`, each (timesteps,), are float32 and stay so.
    """

    betas: Tensor
    alphas_cumprod: Tensor
    alpha: Tensor
    sigma: Tensor

    def __init__(
        self,
        timesteps: int = 1000,
        beta_schedule: BetaSchedule = "linear",
        linear_start: float = 1e-4,
        linear_end: float = 2e-2,
        cosine_s: float = 8e-3,
        zero_terminal_snr: bool = False,
    ) -> None:
        super().__init__()
        self.timesteps = timesteps
        self.zero_terminal_snr = zero_terminal_snr
        self.schedule = (beta_schedule, linear_start, linear_end)
        betas = beta_table(timesteps, beta_schedule, linear_start, linear_end, cosine_s)
        if zero_terminal_snr:
            betas = without_terminal_signal(betas)
        alphas_cumprod = (1 - betas).cumprod(0)
        tables = {"betas": betas, "alphas_cumprod": alphas_cumprod}
        tables |= {"alpha": alphas_cumprod.sqrt(), "sigma": (1 - alphas_cumprod).sqrt()}
        for name, table in tables.items():
            self.register_buffer(name, table.to(torch.float32), persistent=False)

    def coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """alpha and sigma of timesteps t (b,) int64: (b,) each, float32."""
        return self.alpha[t], self.sigma[t]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "DDPMPath":
        # Follow the model to its device, but not to its half precision, which would round the signal-to-noise ratio.
        return super()._apply(lambda table: table.to(fn(table).device), recurse)


def column(values: Tensor, like: Tensor) -> Tensor:
    """Values (b,) as (b, 1, ..., 1), to be multiplied with a tensor of as many dimensions as `like`."""
    return values.reshape(-1, *[1] * (like.dim() - 1))


def corrupt(x0: Tensor, noise: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """x_t (b, ...) of x0 (b, ...) and noise (b, ...), at alpha and sigma (b,) (Ho et al. 2020, eq. 4)."""
    return column(alpha, x0) * x0 + column(sigma, x0) * noise


def beta_table(timesteps: int, schedule: BetaSchedule, start: float, end: float, cosine_s: float) -> Tensor:
    """The betas of a schedule named as in CompVis: (timesteps,) float64, on the CPU whatever the default device is.

    Raises `Fault` CFG08 for a schedule without a step.
    """
    if timesteps < 1:
        raise Fault("CFG08", f"model.params.timesteps cannot be {timesteps}", why="it takes 1 or more")
    if schedule == "cosine":
        return cosine_betas(timesteps, cosine_s)
    if schedule == "linear":
        return line(math.sqrt(start), math.sqrt(end), timesteps) ** 2
    betas = line(start, end, timesteps)
    return betas.sqrt() if schedule == "sqrt" else betas


def line(start: float, end: float, steps: int) -> Tensor:
    return torch.linspace(start, end, steps, dtype=torch.float64, device="cpu")


def cosine_betas(timesteps: int, s: float) -> Tensor:
    """Betas of a squared-cosine alphas_cumprod, at most 0.999 (Nichol & Dhariwal 2021, arXiv 2102.09672, eq. 17)."""
    angle = (line(0, 1, timesteps + 1) + s) / (1 + s) * (math.pi / 2)
    alphas_cumprod = angle.cos() ** 2
    return (1 - alphas_cumprod[1:] / alphas_cumprod[:-1]).clamp(0, 0.999)


def without_terminal_signal(betas: Tensor) -> Tensor:
    """Betas with a last alphas_cumprod of 0 and the first as it was (Lin et al. 2023, arXiv 2305.08891, alg. 1)."""
    alpha = (1 - betas).cumprod(0).sqrt()
    alpha = (alpha - alpha[-1]) * alpha[0] / (alpha[0] - alpha[-1])
    alphas_cumprod = alpha**2
    return 1 - torch.cat([alphas_cumprod[:1], alphas_cumprod[1:] / alphas_cumprod[:-1]])
