"""The training objective: corrupt, predict, compare."""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.loss import ElementLoss, ExampleMean, masked_mean, squared
from ldm.diffusion.noise import Gaussian, NoiseLaw
from ldm.diffusion.path import DDPMPath, Path, corrupt, levels
from ldm.diffusion.prediction import Prediction, determinant, target
from ldm.diffusion.timestep_ranges import restricted
from ldm.diffusion.timesteps import TimestepLaw, UniformTimesteps
from ldm.diffusion.weighting import Weighting, uniform
from ldm.errors import Fault
from ldm.transfers import to_device

Network = Callable[[Tensor, Tensor, Conditioning], Tensor]
"""(x_t (b, c, h, w), clock (b,) int64 or float32 (see `Path.clock`), cond) -> output (b, c, h, w)."""

Targets = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(targets (b, c, h, w) by the prediction, x_t (b, c, h, w), clock (b,)) -> the targets of a run's own."""

log = logging.getLogger(__name__)
LEAST_SHARE = 1e-3
"""Of the mean weight, a level that counts less is not learned; of all weight, neither is the noisiest tenth."""

COLOUR_TRIAL = (8, 16, 16)

_ANY_TIMESTEP = UniformTimesteps()
_WHITE = Gaussian()


@dataclass(frozen=True)
class Losses:
    """Losses of a batch, per example until the trainer takes the mean.

    t         (b,) noise levels of the path, int64 or float32
    simple    (b,) float32 mean cost of the elements, comparable between weightings
    weighted  (b,) float32, what is minimised: `simple` times the noise level's weight and the example's own
    """

    t: Tensor
    simple: Tensor
    weighted: Tensor


class Objective(nn.Module):
    """E[weight(t) loss(network(x_t, t, cond), target)], one draw an example (Ho et al. 2020, arXiv 2006.11239, alg. 1).

    path        signal and noise at every level, and the network's time input; by default `DDPMPath()`
    prediction  what the network's output means
    timesteps   law of t
    noise       law of the noise
    weighting   weight of a noise level; one with parameters of its own is learned, see `forward`
    loss        cost of an error, element by element
    mean        of these over a picture, where it has a mask

    Sampling begins at the path's end. Where that is pure noise, raises `Fault` CFG03 for a prediction from which
    nothing follows there (eps) and CFG08 where the weighting leaves that level out of a discrete path. It warns of a
    weighting that fades out towards any other end, where the levels before it still teach the network, and of noise
    that is not white where the path ends in pure noise.
    """

    def __init__(
        self,
        path: Path | None = None,
        prediction: Prediction = "eps",
        timesteps: TimestepLaw = _ANY_TIMESTEP,
        noise: NoiseLaw = _WHITE,
        weighting: Weighting = uniform,
        loss: ElementLoss = squared,
        mean: ExampleMean = masked_mean,
    ) -> None:
        super().__init__()
        self.path: Path = path or DDPMPath()
        self.prediction = prediction
        self.timesteps = timesteps
        self.noise = noise
        self.weighting = weighting
        self.loss = loss
        self.mean = mean
        alpha, sigma = self.path.coefficients(levels(self.path))
        if alpha[-1] == 0:
            self._require_terminal_level(alpha, sigma)
            self._warn_of_coloured_noise()
        else:
            self._require_terminal_weight(alpha, sigma)

    @property
    def learns_weighting(self) -> bool:
        """Whether the weighting has parameters, frozen ones included."""
        return isinstance(self.weighting, nn.Module) and any(True for _ in self.weighting.parameters())

    def _require_terminal_level(self, alpha: Tensor, sigma: Tensor) -> None:
        """The last of all levels is learned only if its error means something and counts."""
        if determinant(self.prediction, alpha, sigma)[-1] == 0:
            raise Fault(
                "CFG03",
                f"a prediction of {self.prediction} cannot be used on a path that ends in pure noise",
                where="model.params.parameterization",
                why=f"from there {self.prediction} says nothing about the picture",
                fix="predict v, x0 or flow, or choose a path with some signal at its end (zero_terminal_snr: false)",
            )
        self._require_terminal_weight(alpha, sigma)

    def _require_terminal_weight(self, alpha: Tensor, sigma: Tensor) -> None:
        weights = self.weighting(alpha, sigma, self.prediction).detach()
        last, mean = float(weights[-1]), float(weights.mean())
        tenth = float(weights[-len(weights) // 10 :].sum() / weights.sum())
        name, lost = type(self.weighting).__name__, last < LEAST_SHARE * mean
        if lost and alpha[-1] == 0 and self.path.discrete:
            raise Fault(
                "CFG08",
                f"the weighting {name} cannot be used on a path that ends in pure noise (zero_terminal_snr)",
                where="model.params.objective.params.weighting",
                why="the last timestep, pure noise, where sampling begins, would never be learned:"
                f" its weight is {last:.0e}, the mean {mean:.1e}",
                fix="leave the weighting out (~model.params.objective.params.weighting), or zero_terminal_snr",
            )
        if lost or tenth < LEAST_SHARE:
            log.warning(
                "the weighting %s fades out towards pure noise, where sampling begins: the noisiest tenth of the"
                " levels counts %.2g %% of all (~model.params.objective.params.weighting leaves it out)",
                *(name, 100 * tenth),
            )

    def _warn_of_coloured_noise(self) -> None:
        """Noise whose channels have means of their own teaches a start other than that of sampling, white noise."""
        pixels = COLOUR_TRIAL[-1] * COLOUR_TRIAL[-2]
        means = self.noise(BatchDraws(0, range(64)), COLOUR_TRIAL).mean((-2, -1))
        if means.var() * pixels > 1.5:  # white noise: 1, and with 512 means within 0.2 of it
            log.warning(
                "the noise %s moves the mean of whole pictures, and this path ends in pure noise: sampling begins with"
                " white noise, which the network is not shown (~model.params.objective.params.noise leaves it out)",
                type(self.noise).__name__,
            )

    def forward(
        self,
        network: Network,
        x0: Tensor,
        cond: Conditioning,
        draws: BatchDraws,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
        ranges: Tensor | None = None,
        targets: Targets | None = None,
    ) -> Losses:
        """Losses of clean inputs x0 (b, c, h, w), in float32 around a network that may compute in less.

        mask (b, 1, h, w) says where errors count, weight (b,) how much each example does, ranges (b, 2) int64 which
        levels [low, high) it may have, `targets` what is learned in place of the prediction's own target.

        A weight w that is learned is 1 / variance of the error at its level, and minimised is the negative logarithm of
        a normal distribution's likelihood, w error - ln w, without which it would fall to 0.
        """
        law = self.timesteps if ranges is None else restricted(self.timesteps, ranges)
        t = to_device(law(draws, self.path, x0.shape[1:]), x0.device)
        noise = to_device(self.noise(draws, x0.shape[1:]), x0.device)
        alpha, sigma = self.path.coefficients(t)
        x_t = corrupt(x0.float(), noise, alpha, sigma)
        wanted, given, clock = (
            target(self.prediction, x0.float(), noise, alpha, sigma),
            x_t.to(x0.dtype),
            self.path.clock(t),
        )
        if targets is not None:
            wanted = targets(wanted, given, clock)
        elements = self.loss(network(given, clock, cond).float(), wanted)
        simple = self.mean(elements, mask)
        weighted = simple
        if self.weighting != uniform:
            weights = self.weighting(alpha, sigma, self.prediction)
            weighted = weights * simple - weights.log() if self.learns_weighting else weights * simple
        return Losses(t, simple, weighted if weight is None else weight.float() * weighted)
