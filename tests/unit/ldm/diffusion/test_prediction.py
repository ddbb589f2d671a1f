"""Predictions: the three targets, and x_0 back from each."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.diffusion.path import corrupt
from ldm.diffusion.prediction import Prediction, target, x0_from

X0 = torch.tensor([[[[1.0, -2.0]]], [[[0.5, 3.0]]]])
NOISE = torch.tensor([[[[0.3, 1.5]]], [[[-1.0, 0.25]]]])
ALPHA, SIGMA = torch.tensor([0.8, 0.6]), torch.tensor([0.6, 0.8])


def test_the_target_of_eps_is_the_noise() -> None:
    assert torch.equal(target("eps", X0, NOISE, ALPHA, SIGMA), NOISE)


def test_the_target_of_x0_is_the_clean_input() -> None:
    assert torch.equal(target("x0", X0, NOISE, ALPHA, SIGMA), X0)


def test_the_target_of_v_is_alpha_noise_less_sigma_x0() -> None:
    expected = torch.tensor([[[[0.24 - 0.6, 1.2 + 1.2]]], [[[-0.6 - 0.4, 0.15 - 2.4]]]])
    torch.testing.assert_close(target("v", X0, NOISE, ALPHA, SIGMA), expected)


def test_v_is_minus_x0_where_nothing_but_noise_is_left() -> None:
    torch.testing.assert_close(target("v", X0, NOISE, torch.zeros(2), torch.ones(2)), -X0)


@pytest.mark.parametrize("prediction", ["eps", "v", "x0"])
@settings(deadline=None, max_examples=30)
@given(angles=st.lists(st.floats(0.01, math.pi / 2 - 0.01), min_size=2, max_size=2))
def test_x0_comes_back_from_every_target(prediction: Prediction, angles: list[float]) -> None:
    angle = torch.tensor(angles, dtype=torch.float64)
    x0, noise, alpha, sigma = X0.double(), NOISE.double(), angle.cos(), angle.sin()
    output = target(prediction, x0, noise, alpha, sigma)
    torch.testing.assert_close(x0_from(prediction, output, corrupt(x0, noise, alpha, sigma), alpha, sigma), x0)


def test_an_unknown_prediction_is_refused() -> None:
    with pytest.raises(AssertionError):
        target("epsilon", X0, NOISE, ALPHA, SIGMA)  # type: ignore[arg-type]
