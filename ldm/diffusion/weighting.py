"""How much the error of an example counts at its noise level.

Every published weighting is written here once, as a weight w on |x_0 error|^2, a function of SNR = alpha^2 / sigma^2.
An output is affine in the x_0 that it stands for, so |output error|^2 = k^2 |x_0 error|^2 with

    eps  x_0 = (x_t - sigma eps) / alpha   k = alpha / sigma   k^2 = SNR
    v    x_0 = alpha x_t - sigma v         k = 1 / sigma       k^2 = (alpha^2 + sigma^2) / sigma^2 = SNR + 1
    x0                                     k = 1               k^2 = 1

and the weight on the output's error is w / k^2. That of v needs alpha^2 + sigma^2 = 1.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ldm.admission import configurable
from ldm.diffusion.prediction import Prediction

Weighting = Callable[[Tensor, Tensor, Prediction], Tensor]
"""(alpha (b,), sigma (b,), prediction) -> weight on the mean squared error of the output (b,), float32."""

SNR_LIMIT = 1e8
"""The SNR is held within [1 / SNR_LIMIT, SNR_LIMIT], so that its limits 0 and infinity have finite weights."""


def signal_to_noise(alpha: Tensor, sigma: Tensor) -> Tensor:
    """alpha^2 / sigma^2 (b,), float32, finite and not 0."""
    return (alpha.float() ** 2 / sigma.float() ** 2).clamp(1 / SNR_LIMIT, SNR_LIMIT)


def squared_error_ratio(snr: Tensor, prediction: Prediction) -> Tensor:
    """k^2 (b,): the squared error of an output over that of the x_0 that it stands for."""
    return {"eps": snr, "v": snr + 1, "x0": torch.ones_like(snr)}[prediction]


@configurable
@dataclass(frozen=True)
class Uniform:
    """The output's own error, unweighted: "simple" of Ho et al. 2020 (arXiv 2006.11239, eq. 14) when it is eps."""

    def __call__(self, alpha: Tensor, sigma: Tensor, prediction: Prediction) -> Tensor:
        return torch.ones_like(alpha, dtype=torch.float32)


uniform = Uniform()


class ErrorOfX0(ABC):
    """A weighting given by its weight on |x_0 error|^2."""

    @abstractmethod
    def of_x0(self, snr: Tensor) -> Tensor:
        """The weight w (b,) on |x_0 error|^2 at SNR (b,)."""

    def __call__(self, alpha: Tensor, sigma: Tensor, prediction: Prediction) -> Tensor:
        snr = signal_to_noise(alpha, sigma)
        return self.of_x0(snr) / squared_error_ratio(snr, prediction)


@configurable
@dataclass(frozen=True)
class MinSNR(ErrorOfX0):
    """w = min(SNR, gamma) (Hang et al. 2023, arXiv 2303.09556): min(SNR, gamma) / SNR on eps, / (SNR + 1) on v."""

    gamma: float = 5.0

    def of_x0(self, snr: Tensor) -> Tensor:
        return snr.clamp(max=self.gamma)


@configurable
@dataclass(frozen=True)
class SoftMinSNR(ErrorOfX0):
    """w = SNR gamma / (SNR + gamma), min-SNR without the corner (Crowson et al. 2024, arXiv 2401.11605)."""

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
    """w = SNR / (k + SNR)^gamma, hence 1 / (k + SNR)^gamma on eps (Choi et al. 2022, arXiv 2204.00227, eq. 8)."""

    k: float = 1.0
    gamma: float = 1.0

    def of_x0(self, snr: Tensor) -> Tensor:
        return snr / (self.k + snr) ** self.gamma
