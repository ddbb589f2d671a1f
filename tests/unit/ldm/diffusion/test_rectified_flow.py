"""Rectified flow: its levels in closed form, what trains on it, and what sampling makes of an exact velocity."""

import logging
import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.noise import Gaussian
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import column, levels
from ldm.diffusion.prediction import Prediction, target
from ldm.diffusion.rectified_flow import RectifiedFlow, shifted
from ldm.diffusion.sampling.sampler import sample
from ldm.diffusion.timesteps import LogitNormal, Range, Stratified, UniformTimesteps
from ldm.diffusion.weighting import P2, Debiased, MinSNR, SoftMinSNR, Weighting, uniform
from ldm.errors import Fault
from ldm.scheduler_names import Scheduler

PATH = RectifiedFlow()
X0 = torch.linspace(-1, 1, 3 * 2 * 4 * 4).reshape(3, 2, 4, 4)
DRAWS = BatchDraws(5, [10, 11, 12])
COND = Conditioning()
MEAN, SPREAD = 0.7, 0.3


def exact(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
    """The velocity of data that are normal with MEAN and SPREAD: E[noise - x_0 | x_t]."""
    t = (clock / 1000).view(-1, 1)
    rest = (x_t - (1 - t) * MEAN) / ((1 - t) ** 2 * SPREAD**2 + t**2)
    return t * rest - (MEAN + (1 - t) * SPREAD**2 * rest)


def spread_of(steps: int, scheduler: Scheduler = "euler", path: RectifiedFlow = PATH) -> float:
    """Half of what lies between the samples of the noises -1 and 1: the spread of what is drawn, which is affine."""
    noise = torch.tensor([[-1.0], [0.0], [1.0]])
    low, middle, high = sample(exact, path, "flow", COND, None, noise, steps=steps, scheduler=scheduler).flatten()
    assert middle.item() == pytest.approx(MEAN, abs=1e-4)
    return (high - low).item() / 2


def test_signal_and_noise_add_up_to_one_and_the_last_level_is_pure_noise() -> None:
    t = levels(PATH)
    alpha, sigma = PATH.coefficients(t)
    assert torch.equal(alpha + sigma, torch.ones(1000)) and torch.equal(sigma, t) and t.dtype == torch.float32
    assert (t[0].item(), t[-1].item()) == (pytest.approx(0.001), 1.0) and (t > 0).all()
    torch.testing.assert_close(PATH.log_snr(t), 2 * ((1 - t.double()) / t.double()).log())


def test_a_level_is_found_again_by_its_log_snr() -> None:
    t = levels(PATH)
    torch.testing.assert_close(PATH.at_log_snr(PATH.log_snr(t)), t, rtol=1e-6, atol=0)
    assert PATH.at_log_snr(torch.tensor([-math.inf, math.inf], dtype=torch.float64)).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("law", [UniformTimesteps(), Range(200, 800), LogitNormal(), Stratified(4, LogitNormal())])
def test_no_example_is_trained_without_noise(law: UniformTimesteps | Range | LogitNormal | Stratified) -> None:
    t = law(BatchDraws(0, range(500)), PATH, X0.shape[1:])
    assert t.dtype == torch.float32 and t.min() > 0 and t.max() <= 1
    assert len(set(t.tolist())) > 450  # between the named steps, too


def test_a_range_of_steps_is_one_of_t() -> None:
    u = torch.tensor([0.0, 0.5, 1 - 2**-24]).double()
    torch.testing.assert_close(Range(200, 800).quantile(u, PATH, (1,)), torch.tensor([0.8, 0.5, 0.2]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_network_is_told_a_thousand_times_t_in_float32_whatever_it_computes_in(dtype: torch.dtype) -> None:
    seen: list[Tensor] = []

    def network(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
        seen.extend((x_t, clock))
        return torch.zeros_like(x_t)

    losses = Objective(PATH, "flow").to(dtype)(network, X0.to(dtype), COND, DRAWS)
    noise, t = Gaussian()(DRAWS, X0.shape[1:]), losses.t.view(-1, 1, 1, 1)
    clean = X0.to(dtype).float()
    assert torch.equal(seen[1], 1000 * losses.t) and seen[1].dtype == torch.float32
    torch.testing.assert_close(seen[0], ((1 - t) * clean + t * noise).to(dtype))
    torch.testing.assert_close(losses.simple, ((noise - clean) ** 2).mean((1, 2, 3)))


def test_eps_follows_from_nothing_where_sampling_begins() -> None:
    with pytest.raises(Fault, match="pure noise") as fault:
        Objective(PATH, "eps")
    assert fault.value.id == "CFG03" and "flow" in fault.value.fix


T = torch.tensor([0.05, 0.2, 0.309, 0.5, 0.9, 0.95])
SNR = ((1 - T) / T) ** 2


@pytest.mark.parametrize(
    ("weighting", "expected"),
    [
        (uniform, torch.ones(6)),
        (MinSNR(5), SNR.clamp(max=5) * T**2),
        (SoftMinSNR(4), 4 * SNR / (SNR + 4) * T**2),
        (P2(), SNR / (1 + SNR) * T**2),
        (Debiased(), T * (1 - T)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_weighting_of_the_error_of_x0_has_its_closed_form_on_the_velocity(
    weighting: Weighting, expected: Tensor
) -> None:
    torch.testing.assert_close(weighting(1 - T, T, "flow"), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("weighting", [MinSNR(), SoftMinSNR(), Debiased(), P2()], ids=lambda w: type(w).__name__)
def test_a_weighting_that_fades_out_where_sampling_begins_is_told(
    weighting: Weighting, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        Objective(PATH, "flow", weighting=weighting)
    assert f"{type(weighting).__name__} fades out towards pure noise" in caplog.text
    caplog.clear()
    Objective(PATH, "flow")
    assert not caplog.records


@pytest.mark.parametrize("path", [PATH, RectifiedFlow(spacing="linspace"), RectifiedFlow(sampling_shift=3.0)], ids=str)
@pytest.mark.parametrize("steps", [5, 20])
def test_eulers_spread_of_a_normal_law_is_the_product_of_its_steps_and_grows_to_the_exact(
    path: RectifiedFlow, steps: int
) -> None:
    """Each Euler step is affine in x, here in float64."""
    grid = path.grid(steps).double().tolist()
    factors = [1 + (s - t) * (t - (1 - t) * SPREAD**2) / ((1 - t) ** 2 * SPREAD**2 + t**2) for t, s in pairwise(grid)]
    assert spread_of(steps, path=path) == pytest.approx(math.prod(factors), rel=1e-4)
    assert spread_of(steps, path=path) < spread_of(2 * steps, path=path) < SPREAD


@pytest.mark.parametrize("scheduler", ["ddim", "euler", "dpmpp"])
@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_many_steps_draw_what_was_learned(scheduler: Scheduler, shift: float) -> None:
    assert spread_of(500, scheduler, RectifiedFlow(sampling_shift=shift)) == pytest.approx(SPREAD, abs=3e-3)


def test_two_steps_extrapolated_are_nearer_than_one_by_one() -> None:
    assert abs(spread_of(10, "dpmpp") - SPREAD) < abs(spread_of(10, "euler") - SPREAD) / 2


def test_noise_within_sampling_leaves_the_law_of_the_samples_as_it_is() -> None:
    noise = torch.randn(4000, 1, generator=torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(1)
    drawn = sample(exact, PATH, "flow", COND, None, noise, steps=200, eta=1.0, generator=generator)
    assert drawn.mean().item() == pytest.approx(MEAN, abs=0.02)
    assert drawn.std().item() == pytest.approx(SPREAD, abs=0.02)


@pytest.mark.parametrize("prediction", ["flow", "v", "x0"])
@pytest.mark.parametrize("scheduler", ["ddim", "euler", "dpmpp"])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_network_that_knows_the_picture_samples_it(prediction: Prediction, scheduler: Scheduler, steps: int) -> None:
    """From pure noise in any number of steps: the line to one picture is straight."""

    def network(x_t: Tensor, clock: Tensor, cond: Conditioning) -> Tensor:
        alpha, sigma = PATH.coefficients(clock / 1000)
        noise = (x_t - column(alpha, x_t) * X0) / column(sigma, x_t)
        return target(prediction, X0, noise, alpha, sigma)

    noise = Gaussian()(DRAWS, X0.shape[1:])
    drawn = sample(network, PATH, prediction, COND, None, noise, steps=steps, scheduler=scheduler)
    torch.testing.assert_close(drawn, X0, rtol=1e-4, atol=1e-4)


def test_the_shift_divides_the_snr_by_its_square() -> None:
    t = torch.tensor([0.1, 0.5, 0.9, 1.0], dtype=torch.float64)
    torch.testing.assert_close(PATH.log_snr(shifted(t, 3.0)), PATH.log_snr(t) - 2 * math.log(3))


@pytest.mark.parametrize("wrong", [{"sampling_shift": 0.0}, {"sampling_shift": math.nan}, {"timesteps": 0}], ids=str)
def test_a_path_that_cannot_be_is_a_fault(wrong: dict[str, float]) -> None:
    with pytest.raises(Fault):
        RectifiedFlow(**wrong)  # type: ignore[arg-type]


def test_the_path_is_told_in_diffusers_words() -> None:
    told = {"use_flow_sigmas": True, "flow_shift": 3.0, "timestep_spacing": "trailing"}
    assert RectifiedFlow(sampling_shift=3.0).scheduler_settings() == told
    assert RectifiedFlow(500).scheduler_settings()["num_train_timesteps"] == 500
