"""Element losses and the mean for each example."""

import pytest
import torch

from ldm.diffusion.loss import Absolute, Huber, MaskedMean, Squared, WholeMean

ERRORS = torch.tensor([-3.0, -0.1, 0.0, 0.05, 0.1, 2.0])
ZERO = torch.zeros(6)


def test_squared_and_absolute_cost_what_they_say() -> None:
    torch.testing.assert_close(Squared()(ERRORS, ZERO), torch.tensor([9.0, 0.01, 0.0, 0.0025, 0.01, 4.0]))
    torch.testing.assert_close(Absolute()(ERRORS, ZERO), torch.tensor([3.0, 0.1, 0.0, 0.05, 0.1, 2.0]))


def test_squared_has_the_bits_of_a_power_and_so_has_its_gradient() -> None:
    target, gradients = torch.randn(4, 8), []
    for cost in (Squared(), lambda output, target: (output - target) ** 2):
        output = torch.linspace(-3, 3, 32).view(4, 8).requires_grad_()
        cost(output, target).mean(1).mean().backward()
        gradients.append(output.grad)
    assert torch.equal(*gradients) and torch.equal(Squared()(output, target), (output - target) ** 2)


def test_huber_is_squared_up_to_delta_and_its_tangent_beyond() -> None:
    expected = torch.tensor([2 * 0.1 * 3 - 0.01, 0.01, 0.0, 0.0025, 0.01, 2 * 0.1 * 2 - 0.01])
    torch.testing.assert_close(Huber(0.1)(ERRORS, ZERO), expected)


def test_huber_pulls_no_harder_than_twice_delta() -> None:
    output = ERRORS.clone().requires_grad_()
    Huber(0.1)(output, ZERO).sum().backward()
    torch.testing.assert_close(output.grad, torch.tensor([-0.2, -0.2, 0.0, 0.1, 0.2, 0.2]))


def test_the_mean_is_taken_for_each_example() -> None:
    elements = torch.arange(16.0).reshape(2, 2, 2, 2)
    assert MaskedMean()(elements).tolist() == [3.5, 11.5]


def test_the_mean_of_half_precision_is_taken_in_float32() -> None:
    elements = torch.full((1, 1, 64, 64), 60000.0, dtype=torch.float16)
    means = MaskedMean()(elements)
    assert means.dtype == torch.float32
    assert means.item() == pytest.approx(60000)


def test_a_mask_leaves_only_the_masked_area() -> None:
    elements = torch.tensor([[[[1.0, 100.0]], [[3.0, 100.0]]]])  # (1, 2, 1, 2)
    assert MaskedMean()(elements, torch.tensor([[[[1.0, 0.0]]]])).item() == pytest.approx(2.0)


def test_a_soft_mask_weighs_the_elements() -> None:
    elements = torch.tensor([[[[1.0, 5.0]]]])
    assert MaskedMean()(elements, torch.tensor([[[[1.0, 0.25]]]])).item() == pytest.approx((1 + 1.25) / 1.25)


def test_a_full_mask_changes_nothing() -> None:
    elements = torch.arange(12.0).reshape(2, 3, 1, 2)
    torch.testing.assert_close(MaskedMean()(elements, torch.ones(2, 1, 1, 2)), MaskedMean()(elements))


def test_an_empty_mask_costs_nothing() -> None:
    assert MaskedMean()(torch.ones(1, 2, 2, 2), torch.zeros(1, 1, 2, 2)).item() == 0.0


def test_over_the_whole_a_mask_of_a_tenth_counts_a_tenth_of_what_its_area_costs() -> None:
    elements, mask = torch.rand(2, 3, 4, 5), torch.zeros(2, 1, 4, 5)
    mask[:, :, 1, :2] = 1.0
    torch.testing.assert_close(WholeMean()(elements, mask), 0.1 * MaskedMean()(elements, mask))
    torch.testing.assert_close(WholeMean()(elements, mask), elements[:, :, 1, :2].sum((1, 2)) / 60)


def test_over_the_whole_an_example_without_a_mask_is_the_plain_mean() -> None:
    elements = torch.rand(2, 3, 4, 5)
    torch.testing.assert_close(WholeMean()(elements), elements.mean((1, 2, 3)))
    torch.testing.assert_close(WholeMean()(elements, torch.ones(2, 1, 4, 5)), MaskedMean()(elements))
