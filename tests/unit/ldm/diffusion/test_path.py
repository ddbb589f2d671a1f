"""The path: schedules in closed form, zero-terminal SNR, and tables that survive what is done to models."""

import math

import pytest
import torch

from ldm.diffusion.path import BetaSchedule, DDPMPath, corrupt

SCHEDULES = ["linear", "cosine", "sqrt_linear", "sqrt"]


def evenly(start: float, end: float, steps: int) -> torch.Tensor:
    return torch.tensor([start + (end - start) * i / (steps - 1) for i in range(steps)], dtype=torch.float64)


def test_linear_is_linear_in_the_root_of_beta() -> None:
    betas = DDPMPath(11, "linear", 0.0009, 0.04).betas
    torch.testing.assert_close(betas, (evenly(0.03, 0.2, 11) ** 2).float())


def test_sqrt_linear_is_linear_in_beta() -> None:
    torch.testing.assert_close(DDPMPath(11, "sqrt_linear", 0.001, 0.02).betas, evenly(0.001, 0.02, 11).float())


def test_sqrt_is_the_root_of_a_line() -> None:
    torch.testing.assert_close(DDPMPath(11, "sqrt", 0.001, 0.02).betas, evenly(0.001, 0.02, 11).sqrt().float())


def test_cosine_follows_the_squared_cosine_until_beta_is_clipped() -> None:
    path = DDPMPath(100, "cosine", cosine_s=0.008)

    def squared_cosine(t: float) -> float:
        return math.cos((t + 0.008) / 1.008 * math.pi / 2) ** 2

    for t in (0, 10, 50, 98):
        expected = squared_cosine((t + 1) / 100) / squared_cosine(0)
        assert path.alphas_cumprod[t].item() == pytest.approx(expected, rel=1e-6)
    assert path.betas[-1].item() == pytest.approx(0.999)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_signal_and_noise_have_unit_variance_together(schedule: BetaSchedule) -> None:
    path = DDPMPath(1000, schedule)
    torch.testing.assert_close(path.alpha**2 + path.sigma**2, torch.ones(1000))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_signal_only_falls(schedule: BetaSchedule) -> None:
    assert (DDPMPath(1000, schedule).alphas_cumprod.diff() < 0).all()


def test_the_tables_are_exact_to_the_last_bits_of_float32() -> None:
    path = DDPMPath(1000, "linear", 0.00085, 0.012)
    product = 1.0
    for i in range(1000):
        root = math.sqrt(0.00085) + (math.sqrt(0.012) - math.sqrt(0.00085)) * i / 999
        product *= 1 - root**2
    assert path.alpha[-1].item() == pytest.approx(math.sqrt(product), rel=1.2e-7)


def test_coefficients_are_looked_up_for_each_example() -> None:
    path = DDPMPath(10)
    alpha, sigma = path.coefficients(torch.tensor([9, 0, 9]))
    assert alpha.tolist() == [path.alpha[9], path.alpha[0], path.alpha[9]]
    assert sigma.tolist() == [path.sigma[9], path.sigma[0], path.sigma[9]]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_zero_terminal_snr_leaves_no_signal_at_the_end_and_all_of_it_at_the_start(schedule: BetaSchedule) -> None:
    plain = DDPMPath(50, schedule)
    zero = DDPMPath(50, schedule, zero_terminal_snr=True)
    assert zero.alpha[-1] == 0
    assert zero.sigma[-1] == 1
    assert zero.betas[-1] == 1
    torch.testing.assert_close(zero.alpha[0], plain.alpha[0])


def test_zero_terminal_snr_shifts_and_stretches_alpha() -> None:
    plain, zero = DDPMPath(50), DDPMPath(50, zero_terminal_snr=True)
    first, last = plain.alpha[0], plain.alpha[-1]
    torch.testing.assert_close(zero.alpha, (plain.alpha - last) * first / (first - last))


def test_zero_terminal_betas_multiply_to_their_own_table() -> None:
    zero = DDPMPath(50, zero_terminal_snr=True)
    torch.testing.assert_close((1 - zero.betas.double()).cumprod(0).float(), zero.alphas_cumprod, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_casting_a_model_leaves_the_tables_as_they_are(dtype: torch.dtype) -> None:
    layer, path = torch.nn.Linear(1, 1), DDPMPath(20)
    torch.nn.Sequential(layer, path).to(dtype)
    assert layer.weight.dtype == dtype
    assert path.alpha.dtype == torch.float32
    assert torch.equal(path.alpha, DDPMPath(20).alpha)


def test_a_path_built_for_a_model_without_storage_has_its_tables() -> None:
    with torch.device("meta"):
        path = DDPMPath(20)
    assert torch.equal(path.alpha, DDPMPath(20).alpha)


def test_a_default_dtype_of_half_precision_does_not_round_the_tables() -> None:
    expected = DDPMPath(20).alpha
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert torch.equal(DDPMPath(20).alpha, expected)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_tables_are_not_stored_with_the_weights() -> None:
    assert DDPMPath(20).state_dict() == {}


def test_corruption_goes_by_example_even_where_width_equals_batch() -> None:
    x0, noise = torch.ones(2, 1, 1, 2), torch.zeros(2, 1, 1, 2)
    x_t = corrupt(x0, noise, torch.tensor([0.8, 0.6]), torch.tensor([0.6, 0.8]))
    torch.testing.assert_close(x_t[:, 0, 0], torch.tensor([[0.8, 0.8], [0.6, 0.6]]))


def test_corruption_adds_sigma_times_the_noise() -> None:
    x0, noise = torch.tensor([2.0, 5.0]).reshape(2, 1, 1, 1, 1)
    x_t = corrupt(x0, noise, torch.tensor([0.8]), torch.tensor([0.6]))
    assert x_t.item() == pytest.approx(0.8 * 2 + 0.6 * 5)


def test_a_level_is_found_again_by_its_log_snr() -> None:
    path = DDPMPath(1000, "linear", 0.00085, 0.012)
    t = torch.arange(1000)
    exact = path.log_snr(t)
    torch.testing.assert_close(exact, (path.alpha**2 / path.sigma**2).log().double(), rtol=1e-4, atol=1e-4)
    for nudge in (-1e-4, 0.0, 1e-4):
        assert torch.equal(path.at_log_snr(exact + nudge), t)
    assert path.at_log_snr(torch.tensor([-math.inf, math.inf], dtype=torch.float64)).tolist() == [999, 0]


def test_the_end_of_a_zero_terminal_path_is_the_level_of_little_signal() -> None:
    path = DDPMPath(1000, zero_terminal_snr=True)
    assert path.at_log_snr(torch.tensor([-math.inf, -18.0], dtype=torch.float64)).tolist() == [999, 999]
