"""The learning rate and its scaling rules."""

import pytest

from ldm.errors import Fault
from lun.run.rate import DEFAULT_RATE, describe_rate, rate_of, scale_rule, scaled_rate


@pytest.mark.parametrize(
    ("written", "rule"),
    [("none", "none"), ("Linear", "linear"), ("sqrt", "sqrt"), (True, "linear"), (False, "none"), (None, "none")],
)
def test_every_spelling_of_the_rule_is_understood(written: object, rule: str) -> None:
    assert scale_rule(written) == rule


def test_a_rate_that_is_null_is_the_default_and_one_of_zero_is_zero() -> None:
    assert rate_of({"base_learning_rate": None}) == rate_of({}) == (DEFAULT_RATE, "none")
    assert rate_of({"base_learning_rate": 0.0}) == (0.0, "none")


def test_another_rule_is_refused() -> None:
    with pytest.raises(Fault, match="it takes none, linear or sqrt"):
        scale_rule("quadratic")


@pytest.mark.parametrize(("rule", "rate"), [("none", 1e-5), ("linear", 1.6e-4), ("sqrt", 4e-5)])
def test_the_rate_grows_with_the_images_of_a_step_as_the_rule_says(rule: str, rate: float) -> None:
    assert scaled_rate(1e-5, rule, 16) == pytest.approx(rate)  # type: ignore[arg-type]


def test_the_choice_is_shown_with_its_factors() -> None:
    assert describe_rate(2.5e-6, "linear", 4) == "1.00e-05 = base 2.50e-06 x 4 images a step (scale_lr: linear)"
    assert describe_rate(1e-5, "none", 4) == "1.00e-05, as written"
