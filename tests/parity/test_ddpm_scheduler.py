"""The same numbers as diffusers: schedules, corruption, targets, a whole training loss, and DDIM written out."""

from typing import Any

import pytest
import torch
from diffusers import DDIMScheduler, DDPMScheduler, UNet2DConditionModel
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import BetaSchedule, DDPMPath, corrupt
from ldm.diffusion.prediction import Prediction, target
from ldm.diffusion.sampling.guidance import Guidance
from ldm.diffusion.sampling.sampler import sample
from ldm.diffusion.weighting import MinSNR

STABLE_DIFFUSION: dict[str, Any] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
PATH = DDPMPath(1000, "linear", 0.00085, 0.012)
T = torch.tensor([0, 1, 500, 999])
DRAWS = BatchDraws(seed=3, slots=[100, 101, 102, 103])


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def unet() -> UNet2DConditionModel:
    torch.manual_seed(0)
    return UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(8, 16),
        layers_per_block=1,
        norm_num_groups=4,
        cross_attention_dim=8,
        attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )


@pytest.mark.parametrize(
    ("ours", "theirs"), [("linear", "scaled_linear"), ("sqrt_linear", "linear"), ("cosine", "squaredcos_cap_v2")]
)
def test_a_schedule_of_compvis_is_diffusers_of_another_name(ours: BetaSchedule, theirs: Any) -> None:
    path = DDPMPath(1000, ours, 0.00085, 0.012)
    scheduler = DDPMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule=theirs)
    torch.testing.assert_close(path.betas, scheduler.betas, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(path.alphas_cumprod, scheduler.alphas_cumprod, rtol=1e-4, atol=1e-7)


def test_zero_terminal_snr_is_that_of_diffusers() -> None:
    path = DDPMPath(1000, "linear", 0.00085, 0.012, zero_terminal_snr=True)
    scheduler = DDPMScheduler(**STABLE_DIFFUSION, rescale_betas_zero_snr=True)
    # Theirs holds the last entry at 2^-24, so that it can be divided by.
    torch.testing.assert_close(path.alphas_cumprod, scheduler.alphas_cumprod, rtol=1e-3, atol=1e-6)


def test_corruption_is_that_of_diffusers() -> None:
    x0, noise = random(2, 4, 4, 8, 8)
    ours = corrupt(x0, noise, *PATH.coefficients(T))
    torch.testing.assert_close(ours, DDPMScheduler(**STABLE_DIFFUSION).add_noise(x0, noise, T), rtol=1e-5, atol=1e-5)


def test_v_is_the_velocity_of_diffusers() -> None:
    x0, noise = random(2, 4, 4, 8, 8)
    theirs = DDPMScheduler(**STABLE_DIFFUSION).get_velocity(x0, noise, T)
    torch.testing.assert_close(target("v", x0, noise, *PATH.coefficients(T)), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("prediction", ["eps", "v"])
@pytest.mark.parametrize("gamma", [None, 5.0])
def test_a_training_loss_is_that_of_diffusers_training_script(
    unet: UNet2DConditionModel, prediction: Prediction, gamma: float | None
) -> None:
    x0, context = random(4, 4, 8, 8), random(4, 3, 8)

    def network(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        return unet(x_t, t, cond.context).sample

    objective = Objective(PATH, prediction) if gamma is None else Objective(PATH, prediction, weighting=MinSNR(gamma))
    with torch.no_grad():
        losses = objective(network, x0, Conditioning(context=context), DRAWS)
        expected = diffusers_loss(unet, x0, context, losses.t, DRAWS.normal("noise", x0.shape[1:]), prediction, gamma)
    torch.testing.assert_close(losses.weighted.mean(), expected, rtol=1e-5, atol=0)


def diffusers_loss(
    unet: UNet2DConditionModel,
    x0: Tensor,
    context: Tensor,
    t: Tensor,
    noise: Tensor,
    prediction: Prediction,
    gamma: float | None,
) -> Tensor:
    """The loss as diffusers' scheduler and the equations of Hang et al. 2023 give it, with given draws."""
    scheduler = DDPMScheduler(**STABLE_DIFFUSION)
    output = unet(scheduler.add_noise(x0, noise, t), t, context).sample
    wanted = noise if prediction == "eps" else scheduler.get_velocity(x0, noise, t)
    loss = ((output - wanted) ** 2).mean((1, 2, 3))
    if gamma is None:
        return loss.mean()
    snr = scheduler.alphas_cumprod[t] / (1 - scheduler.alphas_cumprod[t])
    return (snr.clamp(max=gamma) / (snr if prediction == "eps" else snr + 1) * loss).mean()


def test_ddim_takes_the_steps_that_the_paper_writes(unet: UNet2DConditionModel) -> None:
    """Song et al. 2021 (arXiv 2010.02502), eq. 12 with sigma = 0, guided, over the timesteps of Stable Diffusion."""
    noise, context, empty = random(2, 4, 8, 8), random(2, 3, 8), torch.zeros(2, 3, 8)

    def network(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        return unet(x_t, t, cond.context).sample

    drawn = sample(
        network,
        PATH,
        "eps",
        Conditioning(context),
        Conditioning(empty),
        noise,
        steps=5,
        guidance=Guidance(3.0),
        scheduler="ddim",
    )
    x, alpha_bar = noise.double(), PATH.alphas_cumprod.double()
    with torch.no_grad():
        for t in (801, 601, 401, 201, 1):
            told, without = (unet(x.float(), t, each).sample.double() for each in (context, empty))
            eps = without + 3 * (told - without)
            before = alpha_bar[max(t - 200, 0)]
            x0 = (x - (1 - alpha_bar[t]).sqrt() * eps) / alpha_bar[t].sqrt()
            x = before.sqrt() * x0 + (1 - before).sqrt() * eps
    torch.testing.assert_close(drawn, x.float(), rtol=1e-3, atol=1e-3)


def test_ddim_is_that_of_stable_diffusions_scheduler_config(unet: UNet2DConditionModel) -> None:
    noise, context = random(2, 4, 8, 8), random(2, 3, 8)
    scheduler = DDIMScheduler(**STABLE_DIFFUSION, clip_sample=False, set_alpha_to_one=False, steps_offset=1)
    scheduler.set_timesteps(4)
    x = noise
    with torch.no_grad():
        for t in scheduler.timesteps:
            x = scheduler.step(unet(x, t, context).sample, t, x).prev_sample

    def network(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        return unet(x_t, t, cond.context).sample

    drawn = sample(network, PATH, "eps", Conditioning(context=context), None, noise, steps=4)
    torch.testing.assert_close(drawn, x, rtol=1e-4, atol=1e-4)
