"""Decay laws: their closed forms against step-by-step products, and the widths that they are named after."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.ema.profiles import (
    ConstantDecay,
    HalfLife,
    InverseGamma,
    PowerDecay,
    Profile,
    gamma_of_sigma_rel,
    largest_interval,
    sigma_rel_of_gamma,
)

PROFILES: list[Profile] = [
    ConstantDecay(0.9999),
    ConstantDecay(0.99),
    ConstantDecay(0.999, warmup=False),
    ConstantDecay(0.0),
    HalfLife(700),
    PowerDecay(0.10),
    PowerDecay(0.05),
    InverseGamma(max_decay=0.999),
]


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
@settings(deadline=None, max_examples=40)
@given(steps=st.tuples(st.integers(0, 3000), st.integers(0, 3000), st.integers(0, 3000)))
def test_two_intervals_in_a_row_keep_what_the_whole_one_keeps(profile: Profile, steps: tuple[int, int, int]) -> None:
    a, b, c = sorted(steps)
    assert profile.log_beta(a, b) + profile.log_beta(b, c) == pytest.approx(profile.log_beta(a, c), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("profile", PROFILES, ids=repr)
@settings(deadline=None, max_examples=40)
@given(a=st.integers(0, 10**6), length=st.integers(1, 500))
def test_an_interval_never_gives_weight_and_an_empty_one_takes_none(profile: Profile, a: int, length: int) -> None:
    assert profile.log_beta(a, a) == 0.0
    assert profile.log_beta(a, a + length) < 0.0


@pytest.mark.parametrize("decay", [0.05, 0.9, 0.99, 0.999])
@pytest.mark.parametrize(("a", "b"), [(0, 1), (0, 300), (85, 95), (880, 900), (891, 892), (0, 12_000), (8_985, 8_995)])
def test_the_warm_up_equals_the_product_of_its_steps_also_across_the_crossover(decay: float, a: int, b: int) -> None:
    product = math.prod(min(decay, (1 + k) / (10 + k)) for k in range(a + 1, b + 1))
    assert math.exp(ConstantDecay(decay).log_beta(a, b)) == pytest.approx(product, rel=1e-12, abs=1e-300)


def test_the_warm_up_ends_where_both_rules_meet() -> None:
    for decay, crossover in [(0.999, 8_990), (0.9995, 17_990), (0.9999, 89_990)]:
        assert ConstantDecay(decay).last_warmup_step == pytest.approx(crossover, abs=1)


def test_a_constant_decay_is_its_power() -> None:
    assert math.exp(ConstantDecay(0.99, warmup=False).log_beta(5, 25)) == pytest.approx(0.99**20, rel=1e-14)


def test_half_of_the_average_is_left_after_a_half_life() -> None:
    law = HalfLife(250)
    assert math.exp(law.log_beta(1000, 1250)) == pytest.approx(0.5, rel=1e-14)
    assert law.decay == pytest.approx(math.exp(law.log_beta(0, 1)), rel=1e-14)


def test_a_power_law_equals_the_product_of_its_steps() -> None:
    law = PowerDecay.of_gamma(6.94)
    product = math.prod((1 - 1 / t) ** 7.94 for t in range(51, 81))
    assert math.exp(law.log_beta(50, 80)) == pytest.approx(product, rel=1e-9)


@pytest.mark.parametrize("profile", [PowerDecay(), InverseGamma(), ConstantDecay(0.0)], ids=repr)
def test_these_laws_forget_the_weights_they_started_from(profile: Profile) -> None:
    assert profile.log_beta(0, 10) == -math.inf


def test_inverse_gamma_follows_its_rule_until_its_cap() -> None:
    law = InverseGamma(inv_gamma=2.0, power=0.75, max_decay=0.9)
    assert math.exp(law.log_beta(3, 4)) == pytest.approx(1 - 2.5**-0.75, rel=1e-12)
    assert math.exp(law.log_beta(10_000, 10_002)) == pytest.approx(0.81, rel=1e-12)


def test_the_warm_up_is_the_power_law_of_gamma_8() -> None:
    warm, power = ConstantDecay(0.9999).log_beta(5_000, 40_000), PowerDecay.of_gamma(8).log_beta(5_000, 40_000)
    assert warm == pytest.approx(power, rel=1e-3)


@settings(deadline=None, max_examples=60)
@given(sigma_rel=st.floats(1e-4, 12**-0.5))
def test_width_to_exponent_and_back_is_the_identity(sigma_rel: float) -> None:
    assert sigma_rel_of_gamma(gamma_of_sigma_rel(sigma_rel)) == pytest.approx(sigma_rel, rel=1e-12)


@pytest.mark.parametrize("gamma", [5.0, 10.0])
def test_an_exponent_given_as_a_width_is_answered_by_its_width(gamma: float) -> None:
    with pytest.raises(ValueError, match=f"gamma = {gamma:g} is the width {sigma_rel_of_gamma(gamma):.4f}"):
        gamma_of_sigma_rel(gamma)


@pytest.mark.parametrize(("sigma_rel", "gamma"), [(0.05, 16.97), (0.10, 6.94), (12**-0.5, 0.0)])
def test_published_pairs_of_width_and_exponent_hold(sigma_rel: float, gamma: float) -> None:
    assert gamma_of_sigma_rel(sigma_rel) == pytest.approx(gamma, abs=5e-3)


@pytest.mark.parametrize(("decay", "interval"), [(0.9999, 100), (0.9995, 20), (0.999, 10), (0.9, 1)])
def test_a_constant_decay_replaces_at_most_one_percent_per_interval(decay: float, interval: int) -> None:
    assert largest_interval(ConstantDecay(decay)) == interval


def test_a_short_run_that_never_leaves_the_warm_up_gets_the_interval_of_its_power_law() -> None:
    assert largest_interval(ConstantDecay(0.9999), 5_000) == 10
    assert largest_interval(ConstantDecay(0.9999, warmup=False), 5_000) == 100


def test_a_power_law_takes_its_interval_from_the_length_of_the_run() -> None:
    assert largest_interval(PowerDecay.of_gamma(6), 40_000) == 100
    assert largest_interval(PowerDecay.of_gamma(6), 10) == 1
    with pytest.raises(ValueError, match="total_steps"):
        largest_interval(PowerDecay())


def test_other_laws_get_an_interval_from_their_decay() -> None:
    assert largest_interval(HalfLife(math.log(2) * 10_000)) == 100
    assert largest_interval(InverseGamma(power=1.0, max_decay=0.9999), 999) == 10


@pytest.mark.parametrize(
    "build",
    [
        lambda: ConstantDecay(1.0),
        lambda: ConstantDecay(-0.1),
        lambda: HalfLife(0),
        lambda: PowerDecay(0.3),
        lambda: PowerDecay(0.0),
        lambda: PowerDecay.of_gamma(-0.5),
        lambda: InverseGamma(max_decay=1.0),
    ],
)
def test_a_value_that_makes_no_average_is_refused(build) -> None:
    with pytest.raises(ValueError, match="got"):
        build()
