"""Predictions: their targets, and x_0 back from each."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.diffusion.path import DDPMPath, column, corrupt
from ldm.diffusion.prediction import PAIRS, Prediction, determinant, pair, target, x0_from

X0 = torch.tensor([[[[1.0, -2.0]]], [[[0.5, 3.0]]]])
NOISE = torch.tensor([[[[0.3, 1.5]]], [[[-1.0, 0.25]]]])
T = torch.arange(0, 1000, 9)
ALPHA, SIGMA = torch.tensor([0.8, 0.6]), torch.tensor([0.6, 0.8])


def test_the_target_of_eps_is_the_noise() -> None:
    assert torch.equal(target("eps", X0, NOISE, ALPHA, SIGMA), NOISE)


def test_the_target_of_x0_is_the_clean_input() -> None:
    assert torch.equal(target("x0", X0, NOISE, ALPHA, SIGMA), X0)


def test_the_target_of_v_is_alpha_noise_less_sigma_x0() -> None:
    expected = torch.tensor([[[[0.24 - 0.6, 1.2 + 1.2]]], [[[-0.6 - 0.4, 0.15 - 2.4]]]])
    torch.testing.assert_close(target("v", X0, NOISE, ALPHA, SIGMA), expected)


@pytest.mark.parametrize("prediction", PAIRS)
def test_a_target_has_the_bits_of_its_pair_times_x0_and_noise(prediction: Prediction) -> None:
    a, b = pair(prediction, ALPHA, SIGMA)
    assert a.shape == b.shape == ALPHA.shape
    assert torch.equal(target(prediction, X0, NOISE, ALPHA, SIGMA), column(a, X0) * X0 + column(b, X0) * NOISE)


def test_v_is_minus_x0_where_nothing_but_noise_is_left() -> None:
    torch.testing.assert_close(target("v", X0, NOISE, torch.zeros(2), torch.ones(2)), -X0)


@pytest.mark.parametrize("prediction", ["eps", "v", "x0", "flow"])
@settings(deadline=None, max_examples=30)
@given(angles=st.lists(st.floats(0.01, math.pi / 2 - 0.01), min_size=2, max_size=2))
def test_x0_comes_back_from_every_target(prediction: Prediction, angles: list[float]) -> None:
    angle = torch.tensor(angles, dtype=torch.float64)
    x0, noise, alpha, sigma = X0.double(), NOISE.double(), angle.cos(), angle.sin()
    output = target(prediction, x0, noise, alpha, sigma)
    torch.testing.assert_close(x0_from(prediction, output, corrupt(x0, noise, alpha, sigma), alpha, sigma), x0)


def test_the_target_of_flow_is_the_noise_less_the_clean_input() -> None:
    assert torch.equal(target("flow", X0, NOISE, ALPHA, SIGMA), NOISE - X0)


def test_one_formula_of_pairs_is_the_published_one_of_each_prediction_to_the_bit() -> None:
    """On a path of DDPM: runs go on as they were begun, whichever way the algebra is written."""
    alpha, sigma = (column(value, X0) for value in DDPMPath(1000, "linear", 0.00085, 0.012).coefficients(T))
    coefficients = alpha.flatten(), sigma.flatten()
    x0, noise, x_t, output = torch.randn(4, len(T), 4, 8, 8, generator=torch.Generator().manual_seed(0))
    assert torch.equal(target("eps", x0, noise, *coefficients), noise)
    assert torch.equal(target("v", x0, noise, *coefficients), alpha * noise - sigma * x0)
    assert torch.equal(target("x0", x0, noise, *coefficients), x0)
    assert torch.equal(x0_from("eps", output, x_t, *coefficients), (x_t - sigma * output) / alpha)
    assert torch.equal(x0_from("v", output, x_t, *coefficients), alpha * x_t - sigma * output)
    assert torch.equal(x0_from("x0", output, x_t, *coefficients), output)


@pytest.mark.parametrize(("prediction", "solvable"), [("eps", False), ("v", True), ("x0", True), ("flow", True)])
def test_pure_noise_leaves_x0_to_every_prediction_but_eps(prediction: Prediction, solvable: bool) -> None:
    nothing, all_noise = torch.zeros(2), torch.ones(2)
    assert bool(determinant(prediction, nothing, all_noise).all()) == solvable
    found = x0_from(prediction, target(prediction, X0, NOISE, nothing, all_noise), NOISE, nothing, all_noise)
    assert torch.allclose(found, X0) == solvable


def test_an_unknown_prediction_is_refused() -> None:
    with pytest.raises(ValueError, match="eps, v, x0, flow"):
        target("epsilon", X0, NOISE, ALPHA, SIGMA)  # type: ignore[arg-type]
