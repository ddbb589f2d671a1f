"""The training objective: corrupt, predict, compare."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.loss import ElementLoss, ExampleMean, masked_mean, squared
from ldm.diffusion.noise import Gaussian, NoiseLaw
from ldm.diffusion.path import DDPMPath, corrupt
from ldm.diffusion.prediction import Prediction, target
from ldm.diffusion.timesteps import TimestepLaw, Uniform
from ldm.diffusion.weighting import Weighting, uniform
from ldm.errors import Fault

Network = Callable[[Tensor, Tensor, Conditioning], Tensor]
"""(x_t (b, c, h, w), t (b,) int64, cond) -> output (b, c, h, w)."""

LEAST_SHARE = 1e-3
"""Of the mean weight: a level that counts less is not learnt."""

_ANY_TIMESTEP = Uniform()
_WHITE = Gaussian()


@dataclass(frozen=True)
class Losses:
    """Losses of a batch, per example until the trainer takes the mean.

    t         (b,) int64 timesteps
    simple    (b,) float32 mean cost of the elements, comparable between weightings
    weighted  (b,) float32, what is minimised: `simple` times the noise level's weight and the example's own
    """

    t: Tensor
    simple: Tensor
    weighted: Tensor


class Objective(nn.Module):
    """E[weight(t) loss(network(x_t, t, cond), target)], one draw an example (Ho et al. 2020, arXiv 2006.11239, alg. 1).

    path        signal and noise at every timestep; by default `DDPMPath()`
    prediction  what the network's output means
    timesteps   law of t
    noise       law of the noise
    weighting   weight of a noise level
    loss        cost of an error, element by element
    mean        of these over a picture, where it has a mask

    Raises `Fault` CFG03 where eps is predicted on a path without terminal signal, since nothing follows from it there,
    and CFG08 where the weighting leaves that level out.
    """

    def __init__(
        self,
        path: DDPMPath | None = None,
        prediction: Prediction = "eps",
        timesteps: TimestepLaw = _ANY_TIMESTEP,
        noise: NoiseLaw = _WHITE,
        weighting: Weighting = uniform,
        loss: ElementLoss = squared,
        mean: ExampleMean = masked_mean,
    ) -> None:
        super().__init__()
        self.path = path or DDPMPath()
        self.prediction = prediction
        self.timesteps = timesteps
        self.noise = noise
        self.weighting = weighting
        self.loss = loss
        self.mean = mean
        if self.path.zero_terminal_snr:
            self._require_terminal_level()

    def _require_terminal_level(self) -> None:
        """Sampling begins at the last level, which is learnt only if its error means something and counts."""
        if self.prediction == "eps":
            raise Fault(
                "CFG03",
                "zero_terminal_snr cannot be used with a prediction of eps",
                why="the last timestep is pure noise, from which eps says nothing about the picture",
                fix="predict v (or x0), or leave zero_terminal_snr out",
            )
        weights = self.weighting(self.path.alpha, self.path.sigma, self.prediction)
        if weights[-1] < LEAST_SHARE * weights.mean():
            name, last, mean = type(self.weighting).__name__, float(weights[-1]), float(weights.mean())
            raise Fault(
                "CFG08",
                f"zero_terminal_snr cannot be used with the weighting {name}",
                where="model.params.objective.params.weighting",
                why="the last timestep, pure noise, where sampling begins, would never be learnt:"
                f" its weight is {last:.0e}, the mean {mean:.1e}",
                fix="leave the weighting out (~model.params.objective.params.weighting), or zero_terminal_snr",
            )

    def forward(
        self,
        network: Network,
        x0: Tensor,
        cond: Conditioning,
        draws: BatchDraws,
        mask: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Losses:
        """Losses of clean inputs x0 (b, c, h, w), in float32 around a network that may compute in less.

        mask (b, 1, h, w) says where errors count, weight (b,) how much each example does.
        """
        t = self.timesteps(draws, self.path.timesteps).to(x0.device)
        noise = self.noise(draws, x0.shape[1:]).to(x0.device)
        alpha, sigma = self.path.coefficients(t)
        x_t = corrupt(x0.float(), noise, alpha, sigma)
        output = network(x_t.to(x0.dtype), t, cond)
        elements = self.loss(output.float(), target(self.prediction, x0.float(), noise, alpha, sigma))
        simple = self.mean(elements, mask)
        weighted = self.weighting(alpha, sigma, self.prediction) * simple
        return Losses(t, simple, weighted if weight is None else weight.float() * weighted)
