"""EDM's levels, continuous in ln sigma (Karras et al. 2022, arXiv 2206.00364), as in CosXL and Playground 2.5."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.number_limits import FROM_ONE, POSITIVE, Limited
from ldm.errors import Fault

Spacing = Literal["karras", "exponential"]
RHO = 7.0
"""Of the paper's levels (eq. 5): the larger, the more of them are nearly clean."""


@configurable
@dataclass(frozen=True)
class EDMPath(Limited):
    """t is the paper's sigma, the noise beside data of deviation `sigma_data`, from `sigma_min` to `sigma_max`.

    As elsewhere x_0 has unit variance, the data divided by `sigma_data`, and x_t is what the network is shown, the
    noised data times the paper's c_in (table 1):

        alpha = sigma_data / sqrt(t^2 + sigma_data^2),    sigma = t / sqrt(t^2 + sigma_data^2).

    So x_t has unit variance at every level, and sampling begins with plain white noise, which is sigma_max times it in
    the paper's units. Its network F is the prediction `edm`; `v` is -F (CosXL). The network's time input is ln(t) / 4.

    sigma_data  deviation of the data in the paper's units: 0.5 there and in Playground 2.5, 1 in CosXL
    sigma_min   the level next to clean pictures
    sigma_max   the level that sampling begins at
    spacing     of the levels that sampling visits: "karras" (eq. 5), or "exponential", even in ln sigma
    timesteps   steps by which settings name levels (`Range`, rows of pictures), spaced as by "karras"

    Raises `Fault` CFG03 for numbers that are not positive and in order.
    """

    limits = {"sigma_data": POSITIVE, "sigma_min": POSITIVE, "sigma_max": POSITIVE, "timesteps": FROM_ONE}
    sigma_data: float = 0.5
    sigma_min: float = 0.002
    sigma_max: float = 80.0
    spacing: Spacing = "karras"
    timesteps: int = 1000
    discrete = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma_min >= self.sigma_max:
            what = f"EDM's levels cannot run from {self.sigma_min} to {self.sigma_max}"
            raise Fault("CFG03", what, why="sigma_min has to be below sigma_max")

    def between(self, u: Tensor, low: int | Tensor, high: int | Tensor) -> Tensor:
        return self._karras((low + (1 - u.double()) * (high - low)) / self.timesteps).float()

    def log_snr(self, t: Tensor) -> Tensor:
        return 2 * (math.log(self.sigma_data) - t.double().log())

    def at_log_snr(self, log_snr: Tensor) -> Tensor:
        # Not beyond its own ends: the network would be given a level that no sample passes through.
        t = self.sigma_data * (-log_snr / 2).exp()
        return t.clamp(self.sigma_min, self.sigma_max).float()

    def coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        scale = torch.rsqrt(t**2 + self.sigma_data**2)
        return self.sigma_data * scale, t * scale

    def clock(self, t: Tensor) -> Tensor:
        return t.float().log() / 4

    def grid(self, steps: int) -> Tensor:
        ramp = torch.linspace(1, 0, steps, dtype=torch.float64, device="cpu")
        if self.spacing == "karras":
            t = self._karras(ramp)
        else:
            t = self.sigma_min * (ramp * math.log(self.sigma_max / self.sigma_min)).exp()
        return torch.cat([t, t.new_zeros(1)]).float()

    def library_settings(self) -> None:
        # diffusers' solvers of these levels count in the paper's units, where noise is sigma_max times as large.
        return None

    def scheduler_settings(self) -> Mapping[str, Any]:
        sigmas = {name: getattr(self, name) for name in ("sigma_data", "sigma_min", "sigma_max")}
        settings = {**sigmas, "sigma_schedule": self.spacing}
        return settings if self.timesteps == 1000 else {**settings, "num_train_timesteps": self.timesteps}

    def _karras(self, share: Tensor) -> Tensor:
        """The level at each share of the way from sigma_min (0) to sigma_max (1), even in its RHO-th root."""
        low, high = self.sigma_min ** (1 / RHO), self.sigma_max ** (1 / RHO)
        return (low + share * (high - low)) ** RHO
