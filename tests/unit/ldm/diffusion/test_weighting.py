"""Weightings: the published closed forms for each prediction, and finite limits."""

import pytest
import torch
from torch import Tensor

from ldm.diffusion.path import DDPMPath
from ldm.diffusion.prediction import Prediction, x0_from
from ldm.diffusion.weighting import (
    P2,
    Debiased,
    MinSNR,
    SoftMinSNR,
    Uncertainty,
    Uniform,
    Weighting,
    squared_error_ratio,
    uniform,
)

SNR = torch.tensor([1e-4, 0.0047, 0.3, 1.0, 5.0, 20.0, 1175.0])
CAPPED = SNR.clamp(max=5.0)
SOFT = SNR * 4 / (SNR + 4)

FORMS: list[tuple[Weighting, Prediction, Tensor]] = [
    (uniform, "eps", torch.ones(7)),
    (uniform, "v", torch.ones(7)),
    (uniform, "x0", torch.ones(7)),
    (MinSNR(5), "eps", CAPPED / SNR),
    (MinSNR(5), "v", CAPPED / (SNR + 1)),
    (MinSNR(5), "x0", CAPPED),
    (SoftMinSNR(4), "eps", 4 / (SNR + 4)),
    (SoftMinSNR(4), "v", SOFT / (SNR + 1)),
    (SoftMinSNR(4), "x0", SOFT),
    (Debiased(), "eps", 1 / SNR.sqrt()),
    (Debiased(), "v", SNR.sqrt() / (SNR + 1)),
    (Debiased(), "x0", SNR.sqrt()),
    (P2(k=1, gamma=0.5), "eps", 1 / (1 + SNR).sqrt()),
    (P2(k=1, gamma=1), "v", SNR / (1 + SNR) ** 2),
    (P2(k=2, gamma=1), "x0", SNR / (2 + SNR)),
]
"""Weighting, prediction, the weight on the output's squared error as published or derived by hand."""


def coefficients(snr: Tensor) -> tuple[Tensor, Tensor]:
    """alpha and sigma of a variance-preserving path at an SNR."""
    snr = snr.double()
    return (snr / (snr + 1)).sqrt().float(), (1 / (snr + 1)).sqrt().float()


@pytest.mark.parametrize(("weighting", "prediction", "expected"), FORMS, ids=lambda value: str(value)[:24])
def test_a_weighting_has_its_published_form(weighting: Weighting, prediction: Prediction, expected: Tensor) -> None:
    torch.testing.assert_close(weighting(*coefficients(SNR), prediction), expected, rtol=2e-4, atol=0)


@pytest.mark.parametrize(
    ("weighting", "prediction", "at_zero", "at_infinity"),
    [
        (MinSNR(5), "eps", 1.0, 0.0),
        (MinSNR(5), "v", 0.0, 0.0),
        (MinSNR(5), "x0", 0.0, 5.0),
        (SoftMinSNR(4), "eps", 1.0, 0.0),
        (SoftMinSNR(4), "v", 0.0, 0.0),
        (SoftMinSNR(4), "x0", 0.0, 4.0),
        (Debiased(), "v", 0.0, 0.0),
        (P2(k=1, gamma=1), "eps", 1.0, 0.0),
        (P2(k=1, gamma=1), "v", 0.0, 0.0),
        (Uniform(), "v", 1.0, 1.0),
    ],
)
def test_pure_noise_and_pure_signal_have_finite_weights(
    weighting: Weighting, prediction: Prediction, at_zero: float, at_infinity: float
) -> None:
    weights = weighting(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]), prediction)
    torch.testing.assert_close(weights, torch.tensor([at_zero, at_infinity]), rtol=1e-6, atol=2e-4)


def test_on_rectified_flow_each_is_its_published_weight_on_the_velocitys_error() -> None:
    t = torch.linspace(0.01, 0.99, 50)
    snr, knee = ((1 - t) / t) ** 2, 1 / (1 + 5**0.5)
    closed: list[tuple[Weighting, Tensor]] = [
        (uniform, torch.ones(50)),
        (MinSNR(5), torch.where(t >= knee, (1 - t) ** 2, 5 * t**2)),
        (SoftMinSNR(4), 4 * snr / (snr + 4) * t**2),
        (P2(k=1, gamma=1), snr / (1 + snr) * t**2),
        (Debiased(), t * (1 - t)),
    ]
    for weighting, expected in closed:
        torch.testing.assert_close(weighting(1 - t, t, "flow"), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("weighting", [MinSNR(), SoftMinSNR(), Debiased(), P2()])
@pytest.mark.parametrize("prediction", ["eps", "v", "x0"])
def test_every_weight_of_a_zero_terminal_path_is_finite(weighting: Weighting, prediction: Prediction) -> None:
    path = DDPMPath(1000, zero_terminal_snr=True)
    weights = weighting(path.alpha, path.sigma, prediction)
    assert weights.isfinite().all()
    assert (weights >= 0).all()


@pytest.mark.parametrize("prediction", ["eps", "v", "x0", "flow"])
def test_the_error_of_an_output_is_k_times_that_of_its_x0(prediction: Prediction) -> None:
    alpha, sigma = (c.double() for c in coefficients(SNR))
    one, other, x_t = torch.randn(3, 7, 1, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    of_output = ((one - other) ** 2).mean((1, 2, 3))
    x0, x0_of_other = (x0_from(prediction, output, x_t, alpha, sigma) for output in (one, other))
    of_x0 = ((x0 - x0_of_other) ** 2).mean((1, 2, 3))
    ratio = squared_error_ratio(alpha, sigma, prediction)
    torch.testing.assert_close(of_output, ratio * of_x0, rtol=1e-6, atol=0)


def test_weights_on_a_path_of_ddpm_are_the_closed_forms_to_the_bit() -> None:
    path = DDPMPath(1000, "linear", 0.00085, 0.012)
    snr = path.alpha**2 / path.sigma**2
    assert torch.equal(MinSNR(5)(path.alpha, path.sigma, "eps"), snr.clamp(max=5) / snr)
    assert torch.equal(MinSNR(5)(path.alpha, path.sigma, "v"), snr.clamp(max=5) / (snr + 1))
    assert torch.equal(MinSNR(5)(path.alpha, path.sigma, "x0"), snr.clamp(max=5))


def test_one_weighting_means_the_same_loss_for_every_prediction() -> None:
    """The weighted error of an output does not depend on whether the network says it as eps, v or x0."""
    alpha, sigma = coefficients(SNR)
    predictions: list[Prediction] = ["eps", "v", "x0", "flow"]
    losses = [MinSNR(5)(alpha, sigma, p) * squared_error_ratio(alpha, sigma, p) for p in predictions]
    torch.testing.assert_close(losses[0], losses[1], rtol=2e-4, atol=0)
    torch.testing.assert_close(losses[0], losses[2], rtol=2e-4, atol=0)
    torch.testing.assert_close(losses[0], losses[3], rtol=2e-4, atol=0)


def test_weights_are_float32_even_of_half_precision_coefficients() -> None:
    half = torch.tensor([0.6], dtype=torch.float16)
    assert MinSNR()(half, half, "v").dtype == torch.float32
    assert uniform(half, half, "v").dtype == torch.float32


def test_a_learned_weighting_begins_as_none_and_ends_at_one_over_the_error_of_each_level() -> None:
    """Closed form: w error - ln w is least at w = 1 / error."""
    alpha, sigma = coefficients(torch.logspace(-4, 3, 64))
    errors = 0.05 + 0.9 * sigma**2
    weighting = Uncertainty()
    assert torch.equal(weighting(alpha, sigma, "v"), torch.ones(64))
    optimizer = torch.optim.Adam(weighting.parameters(), lr=0.3)
    for _ in range(150):
        weights = weighting(alpha, sigma, "v")
        optimizer.zero_grad()
        (weights * errors - weights.log()).mean().backward()
        optimizer.step()
    torch.testing.assert_close(weighting(alpha, sigma, "v") * errors, torch.ones(64), rtol=0, atol=0.15)


def test_a_learned_weighting_is_finite_at_both_ends_and_too_gentle_to_change_a_clipped_step() -> None:
    weighting = Uncertainty()
    weights = weighting(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]), "flow")
    (0.5 * weights - weights.log()).mean().backward()
    assert weights.isfinite().all() and weighting.log_variance.grad is not None
    assert 0 < weighting.log_variance.grad.norm() < 0.13
