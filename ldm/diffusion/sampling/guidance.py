"""Classifier-free guidance: how an output is led away from the unconditional one, how far, and at which levels."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.objective import Network
from ldm.diffusion.path import Path, column
from ldm.diffusion.prediction import Prediction, target, x0_from
from ldm.errors import Fault


@dataclass(frozen=True)
class Guidance:
    """output = unconditional + scale (conditional - unconditional) (Ho & Salimans 2022, arXiv 2207.12598).

    scale    1 is none
    rescale  phi of Lin et al. 2023 (arXiv 2305.08891, eq. 15-16): 0 leaves the spread that guidance gives an output, 1
             brings it back to the conditional one's. The spread is that of v whatever the network predicts, so that
             the same model gives the same samples in each of its spellings
    low      guidance only where sigma / alpha, the noise beside pictures of unit variance, is above this ...
    high     ... and at most this, None: no limit (Kynkaanniemi et al. 2024, arXiv 2404.07724, eq. 3). Elsewhere the
             network is called once, with the caption

    Raises `Fault` CFG03 for numbers that make no guidance, CFG08 for what would change nothing at a scale of 1.
    """

    scale: float = 1.0
    rescale: float = 0.0
    low: float = 0.0
    high: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale >= 0):
            raise Fault("CFG03", f"guidance={self.scale} of samples", why="it has to be a finite number from 0 on")
        if not 0 <= self.rescale <= 1:
            raise Fault("CFG03", f"guidance_rescale={self.rescale} of samples", why="it has to lie between 0 and 1")
        end = math.inf if self.high is None else self.high
        if not (math.isfinite(self.low) and 0 <= self.low < end):
            what = f"guidance from {self.low} to {self.high} (guidance_low, guidance_high)"
            raise Fault("CFG03", what, why="they are levels of sigma / alpha from 0 on, the lower one first")
        if self.is_none and (self.rescale or self.is_bounded):
            raise Fault(
                "CFG08",
                "guidance_rescale, guidance_low and guidance_high have no effect without guidance",
                why="a guidance of 1 is none",
                fix="leave them out, or choose a guidance such as 5.0",
            )

    @property
    def is_none(self) -> bool:
        return self.scale == 1.0

    @property
    def is_bounded(self) -> bool:
        return bool(self.low) or self.high is not None

    def holds_at(self, alpha: Tensor, sigma: Tensor) -> bool:
        """Whether there is guidance at a level, given by its alpha and sigma (1,)."""
        ratio = float(sigma / alpha)  # infinite where no signal is left
        return ratio > self.low and (self.high is None or ratio <= self.high)


UNGUIDED = Guidance()


def guided(
    network: Network,
    cond: Conditioning,
    uncond: Conditioning | None,
    guidance: Guidance,
    path: Path,
    prediction: Prediction,
) -> Callable[[Tensor, Tensor], Tensor]:
    """(x_t (b, ...), t (b,), all alike) -> output (b, ...); one call of the network gives both outputs."""
    if uncond is None or guidance.is_none:
        return lambda x_t, t: network(x_t, path.clock(t), cond)
    both = uncond.join(cond)

    def predict(x_t: Tensor, t: Tensor) -> Tensor:
        clock = path.clock(t)
        if guidance.is_bounded and not guidance.holds_at(*path.coefficients(t[:1])):
            return network(x_t, clock, cond)
        unconditional, conditional = network(torch.cat([x_t, x_t]), torch.cat([clock, clock]), both).float().chunk(2)
        output = unconditional + guidance.scale * (conditional - unconditional)
        if not guidance.rescale:
            return output
        level = path.coefficients(t)
        x_t = x_t.float()
        guided_v, conditional_v = (as_v(prediction, each, x_t, *level) for each in (output, conditional))
        return from_v(prediction, rescaled(guided_v, conditional_v, guidance.rescale), x_t, *level)

    return predict


def rescaled(output: Tensor, conditional: Tensor, phi: float) -> Tensor:
    """`output` (b, ...) with the standard deviation of `conditional` in a share `phi` of it (eq. 15 and 16)."""
    axes = tuple(range(1, output.dim()))
    factor = conditional.std(axes, keepdim=True) / output.std(axes, keepdim=True)
    return output * (phi * factor + (1 - phi))


def as_v(prediction: Prediction, output: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The v (b, ...) that an output (b, ...) stands for, given x_t (b, ...) at alpha and sigma (b,)."""
    return _spelt(prediction, "v", output, x_t, alpha, sigma)


def from_v(prediction: Prediction, v: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    """The output (b, ...) that a v (b, ...) stands for, given x_t (b, ...) at alpha and sigma (b,)."""
    return _spelt("v", prediction, v, x_t, alpha, sigma)


def _spelt(given: Prediction, wanted: Prediction, output: Tensor, x_t: Tensor, alpha: Tensor, sigma: Tensor) -> Tensor:
    if given == wanted:
        return output
    x0 = x0_from(given, output, x_t, alpha, sigma)
    noise = (x_t - column(alpha, x_t) * x0) / column(sigma, x_t)
    return target(wanted, x0, noise, alpha, sigma)
