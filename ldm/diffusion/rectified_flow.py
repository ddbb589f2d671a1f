"""Rectified flow: a straight line from data to noise (Liu et al. 2022, arXiv 2209.03003), as in Stable Diffusion 3."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.number_limits import FROM_ONE, POSITIVE, Limited

Spacing = Literal["trailing", "linspace"]
FloatOrTensor = TypeVar("FloatOrTensor", float, Tensor)


@configurable
@dataclass(frozen=True)
class RectifiedFlow(Limited):
    """alpha = 1 - t and sigma = t, for every t in (0, 1]: it ends in pure noise (Esser et al. 2024, arXiv 2403.03206).

    The network's time input is `timesteps` times t, as in Stable Diffusion 3 and UNets trained further by it.

    timesteps       steps by which settings name levels (`Range`, rows of pictures); t of step s is (s + 1) / timesteps
    sampling_shift  c of t' = c t / (1 + (c - 1) t) for the levels that sampling visits: above 1 more of them are noisy.
                    That of training is the law's (`ldm.diffusion.timesteps.Shifted`)
    spacing         of these levels before the shift: "trailing" is even from 1 to 1 / steps, "linspace" to the last of
                    all steps, where it shifts twice, as diffusers' FlowMatchEulerDiscreteScheduler does and SD3's code

    Raises `Fault` CFG03 for a shift that is no positive number and for a path without a step.
    """

    limits = {"timesteps": FROM_ONE, "sampling_shift": POSITIVE}
    timesteps: int = 1000
    sampling_shift: float = 1.0
    spacing: Spacing = "trailing"
    discrete = False

    def between(self, u: Tensor, low: int | Tensor, high: int | Tensor) -> Tensor:
        # t = 0, where nothing is left to predict, is no level; t = 1 is one.
        return ((low + (1 - u.double()) * (high - low)) / self.timesteps).float()

    def log_snr(self, t: Tensor) -> Tensor:
        t = t.double()
        return 2 * ((1 - t).log() - t.log())

    def at_log_snr(self, log_snr: Tensor) -> Tensor:
        return torch.sigmoid(-log_snr / 2).float()

    def coefficients(self, t: Tensor) -> tuple[Tensor, Tensor]:
        return 1 - t, t

    def clock(self, t: Tensor) -> Tensor:
        return self.timesteps * t

    def grid(self, steps: int) -> Tensor:
        least = 1 / steps if self.spacing == "trailing" else shifted(1 / self.timesteps, self.sampling_shift)
        t = shifted(torch.linspace(1, least, steps, dtype=torch.float64, device="cpu"), self.sampling_shift)
        return torch.cat([t, t.new_zeros(1)]).float()

    def library_settings(self) -> None:
        # diffusers' solvers give the network the time as a whole number, and begin short of pure noise.
        return None

    def scheduler_settings(self) -> Mapping[str, Any]:
        settings = {"use_flow_sigmas": True, "flow_shift": self.sampling_shift, "timestep_spacing": self.spacing}
        return settings if self.timesteps == 1000 else {**settings, "num_train_timesteps": self.timesteps}


def shifted(t: FloatOrTensor, factor: float) -> FloatOrTensor:
    """t of rectified flow with 1 / factor^2 of the SNR that it had (Esser et al. 2024, eq. 23)."""
    return factor * t / (1 + (factor - 1) * t)
