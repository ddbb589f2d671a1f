"""How much the error of an example counts at its noise level.

Every published weighting is written here once, as a weight w on |x_0 error|^2, a function of SNR = alpha^2 / sigma^2.
An output is a x_0 + b noise (see `ldm.diffusion.prediction`), so |output error|^2 = k^2 |x_0 error|^2 with

    k^2 = D^2 / sigma^2,    D = a sigma - b alpha:    eps SNR    x0 1    v SNR + 1    flow (1 + sqrt(SNR))^2

(that of v, and of edm, where alpha^2 + sigma^2 = 1), and the weight on the output's error is w / k^2, on every path.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ldm.admission import configurable
from ldm.diffusion.number_limits import FROM_ZERO, POSITIVE, Interval, Limited, require_limits
from ldm.diffusion.path import SNR_LIMIT
from ldm.diffusion.prediction import Prediction, determinant, pair

Weighting = Callable[[Tensor, Tensor, Prediction], Tensor]
"""(alpha (b,), sigma (b,), prediction) -> weight on the mean squared error of the output (b,), float32.

A module with parameters is learned: its weight is 1 / variance of the error (see `Objective.forward`)."""


def within_limits(alpha: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
    """alpha and sigma (b,) in float32, neither so small that their SNR would be beyond its limits."""
    alpha, sigma = alpha.float(), sigma.float()
    least = SNR_LIMIT**-0.5
    return torch.maximum(alpha, least * sigma), torch.maximum(sigma, least * alpha)


def squared_error_ratio(alpha: Tensor, sigma: Tensor, prediction: Prediction) -> Tensor:
    """k^2 (b,): the squared error of an output over that of the x_0 that it stands for."""
    a, b = pair(prediction, alpha, sigma)
    d = determinant(prediction, alpha, sigma)
    return d * a / sigma - d * b * alpha / sigma**2  # D^2 / sigma^2, and to the bit SNR, SNR + 1 and 1


@configurable
@dataclass(frozen=True)
class Uniform:
    """The output's own error, unweighted: "simple" of Ho et al. 2020 (arXiv 2006.11239, eq. 14) when it is eps."""

    def __call__(self, alpha: Tensor, sigma: Tensor, prediction: Prediction) -> Tensor:
        return torch.ones_like(alpha, dtype=torch.float32)


uniform = Uniform()


class ErrorOfX0(Limited, ABC):
    """A weighting given by its weight on |x_0 error|^2."""

    @abstractmethod
    def of_x0(self, snr: Tensor) -> Tensor:
        """The weight w (b,) on |x_0 error|^2 at SNR (b,)."""

    def __call__(self, alpha: Tensor, sigma: Tensor, prediction: Prediction) -> Tensor:
        alpha, sigma = within_limits(alpha, sigma)
        return self.of_x0(alpha**2 / sigma**2) / squared_error_ratio(alpha, sigma, prediction)


@configurable
@dataclass(frozen=True)
class MinSNR(ErrorOfX0):
    """w = min(SNR, gamma) (Hang et al. 2023, arXiv 2303.09556): min(SNR, gamma) / SNR on eps, / (SNR + 1) on v.

    gamma  the SNR above which levels count alike on x0
    """

    limits = {"gamma": POSITIVE}
    gamma: float = 5.0

    def of_x0(self, snr: Tensor) -> Tensor:
        return snr.clamp(max=self.gamma)


@configurable
@dataclass(frozen=True)
class SoftMinSNR(ErrorOfX0):
    """w = SNR gamma / (SNR + gamma), min-SNR without the corner (Crowson et al. 2024, arXiv 2401.11605).

    gamma  the SNR about which that begins
    """

    limits = {"gamma": POSITIVE}
    gamma: float = 4.0

    def of_x0(self, snr: Tensor) -> Tensor:
        return snr * (self.gamma / (snr + self.gamma))


@configurable
@dataclass(frozen=True)
class Debiased(ErrorOfX0):
    """w = sqrt(SNR), hence 1 / sqrt(SNR) on eps (Yu et al. 2023, arXiv 2310.08442)."""

    def of_x0(self, snr: Tensor) -> Tensor:
        return snr.sqrt()


@configurable
@dataclass(frozen=True)
class P2(ErrorOfX0):
    """w = SNR / (k + SNR)^gamma, hence 1 / (k + SNR)^gamma on eps (Choi et al. 2022, arXiv 2204.00227, eq. 8).

    k  added to the SNR, so that noisy levels stay finite
    gamma  how strongly clean levels are weighted down; 0 not at all
    """

    limits = {"k": FROM_ZERO, "gamma": FROM_ZERO}
    k: float = 1.0
    gamma: float = 1.0

    def of_x0(self, snr: Tensor) -> Tensor:
        return snr / (self.k + snr) ** self.gamma


class Uncertainty(nn.Module):
    """w = 1 / exp(u) with u(noise level) learned so that exp(u) is the mean error there (Karras et al. 2024, EDM2,
    arXiv 2312.02696): every level comes to count alike, whatever the path and what is predicted.

    u is a linear layer, without bias, of cosines of ln(sigma / alpha) / 4. It begins at 0, as no weighting at all. The
    paper's cosines are drawn; these are at the quantiles of the same normal distribution of frequencies. u is the mean
    over them, so that a step of Adam moves it by no more than sqrt(2) learning rates, and its gradient is too small to
    count where gradients are clipped together.

    channels  the number of cosines
    """

    limits = {"channels": Interval(1, 65536)}
    keeps_float32 = True
    frequencies: Tensor
    phases: Tensor

    def __init__(self, channels: int = 128) -> None:
        super().__init__()
        require_limits("Uncertainty", self.limits, {"channels": channels})
        places = (torch.arange(channels, dtype=torch.float64, device="cpu") + 0.5) / channels
        golden = (5**0.5 - 1) / 2
        frequencies = 2 * math.pi * torch.special.ndtri(places)
        phases = 2 * math.pi * (golden * torch.arange(channels, dtype=torch.float64, device="cpu")).frac()
        self.register_buffer("frequencies", frequencies.float(), persistent=False)
        self.register_buffer("phases", phases.float(), persistent=False)
        self.log_variance = nn.Parameter(torch.zeros(channels))

    def forward(self, alpha: Tensor, sigma: Tensor, prediction: Prediction) -> Tensor:
        """The weight (b,) at alpha and sigma (b,)."""
        alpha, sigma = within_limits(alpha, sigma)
        clock = (sigma / alpha).log() / 4
        cosines = (clock[:, None] * self.frequencies.float() + self.phases.float()).cos()
        u = math.sqrt(2) * (cosines * self.log_variance.float()).mean(1)
        return (-u).exp()
