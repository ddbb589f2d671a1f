"""Averages of any width from those of a few: exact where tracked, as good as published elsewhere, and never scaled."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ldm.ema.posthoc import PowerProfile, fit, fit_weighting, inner
from ldm.ema.weightings import HalfLifeSteps, LastSteps, Weighting

RUN = 20_000


def stored(widths: tuple[float, ...], count: int) -> list[PowerProfile]:
    return [PowerProfile(width, RUN * (k + 1) / count) for k in range(count) for width in widths]


def on_grid(profile: PowerProfile, s: np.ndarray) -> np.ndarray:
    density = (profile.gamma + 1) * (s / profile.time) ** profile.gamma / profile.time
    return np.where(s <= profile.time, density, 0.0)


@given(st.floats(0.03, 0.28), st.floats(0.03, 0.28), st.floats(0.05, 1.0), st.floats(0.05, 1.0))
def test_the_closed_form_of_an_inner_product_is_its_integral(w1: float, w2: float, t1: float, t2: float) -> None:
    first, second = PowerProfile(w1, t1), PowerProfile(w2, t2)
    s = (np.arange(200_000) + 0.5) / 200_000 * min(t1, t2)
    integral = float((on_grid(first, s) * on_grid(second, s)).mean() * min(t1, t2))
    assert inner([first], [second])[0, 0] == pytest.approx(integral, rel=1e-3)


@pytest.mark.parametrize("width", [0.05, 0.10])
def test_a_tracked_width_at_a_stored_time_is_that_snapshot(width: float) -> None:
    profiles = stored((0.05, 0.10), 16)
    result = fit(profiles, PowerProfile(width, RUN))
    expected = [float(p == PowerProfile(width, RUN)) for p in profiles]
    assert result.coefficients.tolist() == pytest.approx(expected, abs=1e-6)
    assert result.profile_error < 1e-6


# Errors of the averaged weights in percent for two widths, worst of three kinds of trajectory, 20,000 steps.
TABLE = {
    8: {0.03: 51, 0.075: 1.1, 0.15: 3.2, 0.20: 8.2, 0.25: 17},
    16: {0.03: 2.9, 0.075: 0.11, 0.15: 0.40, 0.20: 1.9, 0.25: 7.0},
    32: {0.03: 0.27, 0.075: 0.01, 0.15: 0.04, 0.20: 0.36, 0.25: 2.5},
}


@pytest.mark.parametrize("count", TABLE)
def test_weights_that_walk_at_random_come_out_within_the_measured_table(count: int) -> None:
    profiles = stored((0.05, 0.10), count)
    generator = np.random.default_rng(0)
    walk = generator.standard_normal((RUN, 64)).cumsum(axis=0)
    s = (np.arange(RUN) + 0.5).astype(float)

    def average(profile: PowerProfile) -> np.ndarray:
        weights = on_grid(profile, s)
        return weights @ walk / weights.sum()

    averages = np.stack([average(profile) for profile in profiles])
    for width, bound in TABLE[count].items():
        result = fit(profiles, PowerProfile(width, RUN))
        wanted = average(PowerProfile(width, RUN))
        error = np.linalg.norm(result.coefficients @ averages - wanted) / np.linalg.norm(wanted - walk[-1])
        assert 100 * error <= 1.1 * bound + 0.02
        assert error == pytest.approx(result.weight_error, rel=0.6, abs=2e-3)


def test_one_wrong_sign_would_be_far_outside_the_table() -> None:
    profiles = stored((0.05, 0.10), 16)
    result = fit(profiles, PowerProfile(0.15, RUN))
    flipped = np.where(result.coefficients < 0, -result.coefficients, result.coefficients)
    flipped /= flipped.sum()
    together = np.append(flipped, -1.0)
    gram = inner([*profiles, PowerProfile(0.15, RUN)], [*profiles, PowerProfile(0.15, RUN)])
    assert together @ gram @ together > 100 * (result.profile_error**2) * gram[-1, -1]


@given(st.floats(0.02, 0.28), st.integers(2, 40), st.floats(0.5, 1.0))
def test_coefficients_add_up_to_one_so_that_weights_that_never_moved_stay(w: float, count: int, share: float) -> None:
    profiles = [profile for profile in stored((0.05, 0.10), count) if profile.time <= share * RUN]
    assert fit(profiles, PowerProfile(w, share * RUN)).sum == pytest.approx(1.0, abs=1e-9)


def test_predicted_errors_are_those_of_the_table_of_profiles() -> None:
    result = fit(stored((0.05, 0.10), 16), PowerProfile(0.20, RUN))
    assert result.profile_error == pytest.approx(0.023, rel=0.05)
    narrow = fit(stored((0.05, 0.10), 16), PowerProfile(0.02, RUN))
    assert narrow.absolute_sum == pytest.approx(17, rel=0.05)
    assert narrow.amplification < narrow.absolute_sum


def test_more_snapshots_never_do_worse() -> None:
    errors = [fit(stored((0.05, 0.10), count), PowerProfile(0.15, RUN)).profile_error for count in (4, 8, 16, 32, 64)]
    assert errors == sorted(errors, reverse=True)


@pytest.mark.parametrize("profiles", [[], [PowerProfile(0.1, 2.0)]], ids=["nothing", "the future"])
def test_what_cannot_be_reconstructed_is_refused(profiles: list[PowerProfile]) -> None:
    with pytest.raises(ValueError):
        fit(profiles, PowerProfile(0.1, 1.0))


def test_a_weighting_that_is_a_power_function_is_fitted_as_by_its_closed_form() -> None:
    profiles, wanted = stored((0.05, 0.10), 16), PowerProfile(0.08, RUN)
    ours = fit_weighting(profiles, lambda s, time: (s / time) ** wanted.gamma, RUN)
    theirs = fit(profiles, wanted)
    assert ours.coefficients.tolist() == pytest.approx(theirs.coefficients.tolist(), abs=2e-3)
    assert ours.profile_error == pytest.approx(theirs.profile_error, abs=1e-4)
    assert ours.weight_error == pytest.approx(theirs.weight_error, rel=0.1)


@pytest.mark.parametrize("weighting", [LastSteps(5_000), HalfLifeSteps(2_000)])
def test_another_average_of_weights_that_walk_comes_out_within_its_error(weighting: Weighting) -> None:
    walk = np.random.default_rng(0).standard_normal((RUN, 64)).cumsum(axis=0)
    s = (np.arange(RUN) + 0.5).astype(float)
    profiles = stored((0.05, 0.10), 32)
    result = fit_weighting(profiles, weighting, RUN)
    averages = np.stack([on_grid(profile, s) @ walk / on_grid(profile, s).sum() for profile in profiles])
    weights = weighting(s, RUN)
    whole = weights @ walk / weights.sum()
    apart = np.linalg.norm(result.coefficients @ averages - whole) / np.linalg.norm(whole - walk[-1])
    assert apart < 3 * result.weight_error < 0.3
    assert result.sum == pytest.approx(1)


@pytest.mark.parametrize("weighting", [lambda s, t: -s, lambda s, t: s * 0, lambda s, t: s / 0, lambda s, t: 1.0])
def test_what_is_no_weighting_is_refused(weighting: Weighting) -> None:
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match="0 or more"):
        fit_weighting(stored((0.05,), 4), weighting, RUN)
