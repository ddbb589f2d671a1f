"""The same numbers as diffusers' schedulers for EDM's levels, in whose units noise is sigma_max times as large."""

import pytest
import torch
from diffusers import EDMDPMSolverMultistepScheduler, EDMEulerScheduler
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.edm import EDMPath, Spacing
from ldm.diffusion.prediction import Prediction
from ldm.diffusion.sampling.sampler import sample

NOISE = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
SETTINGS = [(0.5, 80.0, "karras", "edm"), (1.0, 120.0, "exponential", "v")]


def network(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
    """Any function of both."""
    return torch.tanh(x_t) * (1 + clock.view(-1, 1, 1, 1))


@pytest.mark.parametrize("steps", [2, 7, 28])
@pytest.mark.parametrize(("data", "most", "spacing", "prediction"), SETTINGS)
@pytest.mark.parametrize("solver", ["euler", "dpmpp"])
def test_levels_and_steps_are_those_of_the_scheduler(
    steps: int, data: float, most: float, spacing: Spacing, prediction: Prediction, solver: str
) -> None:
    kind = EDMEulerScheduler if solver == "euler" else EDMDPMSolverMultistepScheduler
    word = "v_prediction" if prediction == "v" else "epsilon"
    theirs = kind(sigma_data=data, sigma_max=most, sigma_schedule=spacing, prediction_type=word)
    theirs.set_timesteps(steps)
    path = EDMPath(data, sigma_max=most, spacing=spacing)
    torch.testing.assert_close(path.grid(steps), theirs.sigmas)
    x = NOISE * (most**2 + data**2) ** 0.5
    for t in theirs.timesteps:
        output = network(theirs.scale_model_input(x, t), t.expand(2), Conditioning())
        x = theirs.step(output, t, x).prev_sample
    ours = sample(network, path, prediction, Conditioning(), None, NOISE, steps=steps, scheduler=solver)  # type: ignore[arg-type]
    torch.testing.assert_close(ours, x / data, rtol=1e-4, atol=1e-4)
