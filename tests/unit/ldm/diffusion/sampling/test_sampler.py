"""The sampler: networks that know the answer must arrive at it, by every scheduler and prediction."""

from itertools import pairwise

import pytest
import torch
from diffusers import DDIMScheduler
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.diffusion.edm import EDMPath
from ldm.diffusion.objective import Network
from ldm.diffusion.path import DDPMPath, Path, column, ddim_timesteps, trailing
from ldm.diffusion.prediction import Prediction, target
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.sampling.ddim import DDIM, Euler
from ldm.diffusion.sampling.guidance import Guidance, guided
from ldm.diffusion.sampling.sampler import Scheduler, sample
from ldm.errors import Fault

NOISE = torch.randn(2, 1, 3, 3, generator=torch.Generator().manual_seed(0))
X0 = torch.linspace(-1, 1, 18).reshape(2, 1, 3, 3)
COND = Conditioning(context=torch.ones(2, 1, 1))
UNCOND = Conditioning(context=torch.zeros(2, 1, 1))
PATH = DDPMPath(100, linear_start=1e-4, linear_end=0.2)
STABLE = DDPMPath(1000, linear_start=0.00085, linear_end=0.012)
ZERO = DDPMPath(100, linear_start=1e-4, linear_end=0.2, zero_terminal_snr=True)
ALL: list[Scheduler] = ["ddim", "euler", "dpmpp"]


def knowing(x0: Tensor, path: DDPMPath, prediction: Prediction) -> Network:
    """The perfect network for data that consist of x0 alone."""

    def network(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        alpha, sigma = path.coefficients(t)
        noise = (x_t - column(alpha, x_t) * x0) / column(sigma, x_t)
        return target(prediction, x0, noise, alpha, sigma)

    return network


class Recording:
    """Answers half of its input and remembers every call."""

    def __init__(self) -> None:
        self.calls: list[tuple[Tensor, Tensor, Conditioning]] = []

    def __call__(self, x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        self.calls.append((x_t, t, cond))
        return 0.5 * x_t


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("prediction", ["eps", "v", "x0", "flow"])
def test_a_network_that_knows_the_picture_samples_it(scheduler: Scheduler, prediction: Prediction) -> None:
    drawn = sample(knowing(X0, PATH, prediction), PATH, prediction, COND, None, NOISE, steps=20, scheduler=scheduler)
    torch.testing.assert_close(drawn, X0, rtol=0, atol=0.05)


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("prediction", ["v", "x0", "flow"])
def test_sampling_begins_at_pure_noise_where_the_path_ends_there(scheduler: Scheduler, prediction: Prediction) -> None:
    network, seen = knowing(X0, ZERO, prediction), []

    def watched(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        seen.append((t[0].item(), x_t))
        return network(x_t, t, cond)

    drawn = sample(watched, ZERO, prediction, COND, None, NOISE, steps=20, scheduler=scheduler)
    first_t, first_x = seen[0]
    assert first_t == 99
    torch.testing.assert_close(first_x, NOISE, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(drawn, X0, rtol=0, atol=0.05)


def test_ddim_visits_the_timesteps_of_stable_diffusion() -> None:
    network = Recording()
    sample(network, DDPMPath(1000), "eps", COND, None, NOISE, steps=4)
    assert [t.tolist() for _, t, _ in network.calls] == [[751, 751], [501, 501], [251, 251], [1, 1]]
    assert network.calls[0][1].dtype == torch.int64


@pytest.mark.parametrize("scheduler", ["euler", "dpmpp"])
def test_the_other_solvers_begin_at_the_last_timestep(scheduler: Scheduler) -> None:
    network = Recording()
    sample(network, DDPMPath(1000), "eps", COND, None, NOISE, steps=4, scheduler=scheduler)
    assert [t[0].item() for _, t, _ in network.calls] == [999, 749, 499, 249]


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("steps", [20, 150, 201, 334, 500, 501, 750, 998, 999, 1000])
def test_any_number_of_steps_draws_the_mean_and_spread_of_what_was_learned(scheduler: Scheduler, steps: int) -> None:
    """A normal law of mean 2 and spread 0.5, whose probability flow has a closed form: a line from z at the last t."""
    mean, spread = 2.0, 0.5

    def network(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        alpha, sigma = (column(value, x_t) for value in STABLE.coefficients(t))
        x0 = (mean * sigma**2 + alpha * spread**2 * x_t) / (alpha**2 * spread**2 + sigma**2)
        return (x_t - alpha * x0) / sigma

    def along(t: int, z: float) -> float:
        alpha, sigma = (float(value) for value in STABLE.coefficients(torch.tensor([t])))
        return alpha * mean + z * (alpha**2 * spread**2 + sigma**2) ** 0.5

    noise = torch.tensor([[-1.0], [0.0], [1.0]])
    drawn = sample(network, STABLE, "eps", COND, None, noise, steps=steps, scheduler=scheduler)
    begin = along(999, 0.0)
    exact = [along(0, (z - begin) / (along(999, 1.0) - begin)) for z in (-1.0, 0.0, 1.0)]
    worst = 0.08 if steps == 20 else 0.02
    torch.testing.assert_close(drawn, torch.tensor(exact)[:, None], rtol=0, atol=worst)


@pytest.mark.parametrize("zero_terminal_snr", [False, True])
def test_timesteps_go_down_from_near_the_last_one_by_nearly_the_same_for_every_number(zero_terminal_snr: bool) -> None:
    for steps in range(1, 1001):
        for visited in (trailing(1000, steps), ddim_timesteps(1000, steps, zero_terminal_snr)):
            assert len(visited) == steps and 0 <= visited[-1] <= visited[0] <= 999
            gaps = {a - b for a, b in pairwise(visited)}
            assert not gaps or (min(gaps) >= 1 and max(gaps) - min(gaps) <= 1)
            assert visited[0] >= (999 if zero_terminal_snr else min(900, 1000 - 2 * (1000 // steps)))


@pytest.mark.parametrize("prediction", ["eps", "v", "x0"])
@pytest.mark.parametrize(("steps", "zero", "eta"), [(7, False, 0.0), (50, False, 1.0), (20, True, 0.5)])
def test_ddim_is_diffusers_where_that_steps_evenly(prediction: Prediction, steps: int, zero: bool, eta: float) -> None:
    if zero and prediction == "eps":
        pytest.skip("noise says nothing where there is no signal")
    path = DDPMPath(1000, linear_start=0.00085, linear_end=0.012, zero_terminal_snr=zero)
    theirs = DDIMScheduler(
        trained_betas=path.betas.tolist(),
        prediction_type={"eps": "epsilon", "v": "v_prediction", "x0": "sample"}[prediction],
        timestep_spacing="trailing" if zero else "leading",
        rescale_betas_zero_snr=zero,
        clip_sample=False,
        set_alpha_to_one=False,
        steps_offset=1,
    )
    theirs.set_timesteps(steps)
    generators = [torch.Generator().manual_seed(4) for _ in range(2)]
    x = NOISE
    for t in theirs.timesteps:
        x = theirs.step(0.5 * x, t, x, eta=eta, generator=generators[0]).prev_sample
    ours = sample(Recording(), path, prediction, COND, None, NOISE, steps=steps, eta=eta, generator=generators[1])
    torch.testing.assert_close(ours, x, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("scheduler", ALL)
@pytest.mark.parametrize("steps", [1, 3, 99, 100])
def test_any_number_of_steps_up_to_all_stays_on_the_path(scheduler: Scheduler, steps: int) -> None:
    network = Recording()
    drawn = sample(network, PATH, "v", COND, None, NOISE, steps=steps, scheduler=scheduler)
    visited = [t[0].item() for _, t, _ in network.calls]
    assert len(visited) == steps
    assert visited == sorted(set(visited), reverse=True)
    assert 0 <= visited[-1] <= visited[0] <= 99
    assert drawn.isfinite().all()


@pytest.mark.parametrize("prediction", ["eps", "v", "x0", "flow"])
@pytest.mark.parametrize(
    "path", [STABLE, EDMPath(), RectifiedFlow(sampling_shift=3.0)], ids=lambda path: type(path).__name__
)
def test_eulers_own_step_is_ddims_on_every_path(path: Path, prediction: Prediction) -> None:
    grid = path.grid(5)
    start = 0 if prediction != "eps" or path.coefficients(grid[:1])[0] else 1
    x, output = NOISE * path.coefficients(grid[start : start + 1])[1], NOISE.flip(0)
    steps = [kind(path, prediction, grid).step(output, grid[start], x).prev_sample for kind in (Euler, DDIM)]
    torch.testing.assert_close(*steps, rtol=1e-4, atol=1e-4)


def test_guidance_moves_away_from_the_unconditional_output() -> None:
    def network(x_t: Tensor, t: Tensor, cond: Conditioning) -> Tensor:
        assert cond.context is not None
        return cond.context[:, :, :, None] * torch.full_like(x_t, 2.0) + 1  # 1 without, 3 with the caption

    predict = guided(network, COND, UNCOND, Guidance(5.0), PATH, "eps")
    assert predict(NOISE, torch.tensor([4, 4])).unique().tolist() == [1 + 5 * (3 - 1)]


def test_guidance_takes_one_call_a_step_for_both() -> None:
    network = Recording()
    sample(network, PATH, "eps", COND, UNCOND, NOISE, steps=3, guidance=Guidance(2.0))
    assert len(network.calls) == 3
    x_t, t, cond = network.calls[0]
    assert torch.equal(x_t[:2], x_t[2:])
    assert len(t) == 4
    assert cond.context is not None
    assert cond.context.flatten().tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(("uncond", "guidance"), [(None, 5.0), (UNCOND, 1.0)])
def test_without_guidance_the_network_sees_the_caption_alone(uncond: Conditioning | None, guidance: float) -> None:
    network = Recording()
    sample(network, PATH, "eps", COND, uncond, NOISE, steps=2, guidance=Guidance(guidance))
    assert len(network.calls[0][0]) == 2
    assert network.calls[0][2] is COND


@pytest.mark.parametrize("scheduler", ALL)
def test_a_sample_follows_from_its_noise_alone(scheduler: Scheduler) -> None:
    def draw(noise: Tensor) -> Tensor:
        return sample(Recording(), PATH, "v", COND, None, noise, steps=5, scheduler=scheduler)

    first = draw(NOISE)
    torch.rand(5)
    assert torch.equal(first, draw(NOISE))
    torch.testing.assert_close(first[1:], draw(NOISE[1:]), rtol=1e-6, atol=1e-6)
    assert not torch.equal(first, draw(-NOISE))


def test_eta_draws_from_the_generator_that_is_given() -> None:
    def draw(seed: int, eta: float) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return sample(Recording(), PATH, "v", COND, None, NOISE, steps=5, eta=eta, generator=generator)

    assert torch.equal(draw(1, 1.0), draw(1, 1.0))
    assert not torch.equal(draw(1, 1.0), draw(2, 1.0))
    assert torch.equal(draw(1, 0.0), draw(2, 0.0))


def test_a_generator_for_each_example_makes_its_sample_independent_of_the_batch() -> None:
    def draw(noise: Tensor, seeds: list[int]) -> Tensor:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        return sample(Recording(), PATH, "v", COND, None, noise, steps=5, eta=1.0, generator=generators)

    torch.testing.assert_close(draw(NOISE, [1, 2])[1:], draw(NOISE[1:], [2]), rtol=1e-6, atol=1e-6)


def test_a_network_in_half_precision_sees_and_gives_its_own_dtype() -> None:
    network = Recording()
    drawn = sample(network, PATH, "eps", COND, UNCOND, NOISE.bfloat16(), steps=3, guidance=Guidance(2.0))
    assert network.calls[0][0].dtype == torch.bfloat16
    assert drawn.dtype == torch.bfloat16


def test_sampling_keeps_no_graph() -> None:
    weight = torch.tensor(0.5, requires_grad=True)
    drawn = sample(lambda x_t, t, cond: weight * x_t, PATH, "v", COND, None, NOISE, steps=2)
    assert not drawn.requires_grad


@pytest.mark.parametrize(
    "wrong", [{"eta": 0.5, "scheduler": "euler"}, {"steps": 0}, {"steps": 101}, {"scheduler": "heun"}], ids=str
)
def test_settings_that_cannot_be_are_faults(wrong: dict[str, float | str]) -> None:
    with pytest.raises(Fault) as fault:
        sample(Recording(), PATH, "v", COND, None, NOISE, **wrong)  # type: ignore[arg-type]
    assert fault.value.id == "CFG03"
