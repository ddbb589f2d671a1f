"""The encoder's Gaussian against numbers computed by hand, and where half precision would leave its range."""

import math

import torch

from ldm.modules.posterior import Posterior


def posterior(mean: float, log_variance: float, dtype: torch.dtype = torch.float32) -> Posterior:
    moments = torch.tensor([mean, mean, log_variance, log_variance], dtype=dtype)
    return Posterior.of(moments.view(1, 4, 1, 1).expand(3, 4, 2, 2))


def test_the_divergence_from_the_standard_normal_is_zero_there() -> None:
    assert torch.equal(posterior(0.0, 0.0).kl(), torch.zeros(3))


def test_the_divergence_sums_over_a_latent() -> None:
    by_hand = 8 * 0.5 * (2.0**2 + math.exp(-1.0) - 1.0 + 1.0)
    assert torch.allclose(posterior(2.0, -1.0).kl(), torch.full((3,), by_hand))


def test_a_sample_is_mean_plus_deviation_times_noise() -> None:
    sample = posterior(2.0, 2 * math.log(3.0)).sample(torch.full((3, 2, 2, 2), -1.0))
    assert torch.allclose(sample, torch.full((3, 2, 2, 2), -1.0))


def test_a_log_variance_is_kept_within_the_range_of_compvis() -> None:
    assert posterior(0.0, 100.0).log_variance.unique().tolist() == [20.0]
    assert posterior(0.0, -100.0).log_variance.unique().tolist() == [-30.0]


def test_variances_that_overflow_float16_are_finite() -> None:
    log_variance = torch.tensor(12.0, dtype=torch.float16)
    assert log_variance.exp().isinf()
    found = posterior(200.0, 12.0, torch.float16)
    assert found.kl().dtype == torch.float32 and found.kl().isfinite().all()
    assert torch.tensor(200.0, dtype=torch.float16).square().mul(2).isinf()  # the sum over a latent, done in half
    with torch.autocast("cpu", dtype=torch.float16):
        assert found.kl().isfinite().all()
