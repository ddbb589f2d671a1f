"""The same numbers as diffusers' schedulers for rectified flow: their levels, noising, and their steps."""

import pytest
import torch
from diffusers import DPMSolverMultistepScheduler, FlowMatchEulerDiscreteScheduler
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.path import corrupt, levels
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.sampling.dpm_solver import DPMSolver
from ldm.diffusion.sampling.sampler import sample

NOISE = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
CASES = [(steps, shift) for steps in (1, 4, 28) for shift in (1.0, 3.0)]


def network(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
    """Any function of both."""
    return torch.tanh(x_t) * (1 + clock.view(-1, 1, 1, 1) / 1000)


@pytest.mark.parametrize(("steps", "shift"), CASES)
def test_levels_are_those_of_the_scheduler(steps: int, shift: float) -> None:
    theirs = FlowMatchEulerDiscreteScheduler(shift=shift)
    theirs.set_timesteps(steps)
    assert torch.equal(RectifiedFlow(sampling_shift=shift, spacing="linspace").grid(steps), theirs.sigmas)
    theirs.set_timesteps(sigmas=torch.linspace(1, 1 / steps, steps).tolist())
    torch.testing.assert_close(RectifiedFlow(sampling_shift=shift).grid(steps), theirs.sigmas, rtol=0, atol=2e-7)


@pytest.mark.parametrize(("steps", "shift"), CASES)
def test_euler_takes_the_steps_of_the_scheduler(steps: int, shift: float) -> None:
    theirs = FlowMatchEulerDiscreteScheduler(shift=shift)
    theirs.set_timesteps(steps)
    x = NOISE
    for t in theirs.timesteps:
        x = theirs.step(network(x, t.expand(2), Conditioning()), t, x).prev_sample
    path = RectifiedFlow(sampling_shift=shift, spacing="linspace")
    ours = sample(network, path, "flow", Conditioning(), None, NOISE, steps=steps, scheduler="euler")
    assert torch.equal(ours, x)


@pytest.mark.parametrize(("steps", "shift"), CASES)
def test_dpm_solver_takes_the_steps_of_the_scheduler_where_that_begins(steps: int, shift: float) -> None:
    theirs = DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=shift)
    theirs.set_timesteps(steps)
    ours = DPMSolver(RectifiedFlow(), "flow", theirs.sigmas.clone())
    x = y = NOISE
    for step, t in enumerate(theirs.timesteps):
        clock = 1000 * theirs.sigmas[step].expand(2)  # theirs is a whole number
        x = theirs.step(network(x, clock, Conditioning()), t, x).prev_sample
        y = ours.step(network(y, clock, Conditioning()), ours.timesteps[step], y).prev_sample
    torch.testing.assert_close(y, x, rtol=2e-4, atol=2e-4)


def test_noising_and_the_steps_of_training_are_those_of_the_scheduler() -> None:
    theirs = FlowMatchEulerDiscreteScheduler()
    assert torch.equal(levels(RectifiedFlow()), theirs.sigmas.flip(0))
    t = theirs.timesteps[[3, 700]]
    noised = theirs.scale_noise(0.5 * NOISE, t, NOISE.flip(0))
    ours = corrupt(0.5 * NOISE, NOISE.flip(0), *RectifiedFlow().coefficients(theirs.sigmas[[3, 700]]))
    torch.testing.assert_close(ours, noised)
