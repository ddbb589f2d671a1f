"""Timestep laws: what they cover, and that an example's timestep follows from its slot alone."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.path import DDPMPath, levels
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.timesteps import (
    CosMap,
    LogitNormal,
    LogSnrLaw,
    Mode,
    QuantileLaw,
    Range,
    Shifted,
    Stratified,
    TimestepLaw,
    UniformTimesteps,
)
from ldm.errors import Fault

LAWS = [UniformTimesteps(), Range(100, 900), Stratified(4), Stratified(4, Range(100, 900))]
LAWS += [LogitNormal(), Mode(), CosMap(), Shifted(3.0, LogitNormal()), Stratified(4, Shifted(3.0))]
FLOW = RectifiedFlow()
SHAPE = (4, 8, 8)
PATH = DDPMPath(1000)


@pytest.mark.parametrize("law", LAWS)
def test_an_example_keeps_its_timestep_whatever_it_is_batched_with(law: TimestepLaw) -> None:
    together = law(BatchDraws(7, [3, 4, 5]), PATH, SHAPE)
    assert together.dtype == torch.int64
    assert together.tolist() == [law(BatchDraws(7, [slot]), PATH, SHAPE).item() for slot in (3, 4, 5)]


def test_uniform_meets_every_timestep_about_equally_often() -> None:
    counts = UniformTimesteps()(BatchDraws(0, range(2000)), DDPMPath(4), SHAPE).bincount(minlength=4)
    assert len(counts) == 4
    assert (counts > 420).all()


def test_a_range_stays_within_its_bounds_and_meets_both() -> None:
    t = Range(3, 6)(BatchDraws(0, range(200)), DDPMPath(10), SHAPE)
    assert sorted(set(t.tolist())) == [3, 4, 5]


@pytest.mark.parametrize(("low", "high"), [(0, 11), (5, 5), (-1, 5), (6, 2)])
def test_a_range_beyond_the_path_or_empty_is_a_fault(low: int, high: int) -> None:
    with pytest.raises(Fault) as fault:
        Range(low, high)(BatchDraws(0, [0]), DDPMPath(10), SHAPE)
    assert fault.value.id == "CFG03"


@settings(deadline=None, max_examples=30)
@given(start=st.integers(0, 10**9), size=st.integers(1, 12))
def test_every_stratum_is_met_once_by_any_global_batch(start: int, size: int) -> None:
    t = Stratified(size)(BatchDraws(1, range(start, start + size)), DDPMPath(100 * size), SHAPE)
    assert sorted((t // 100).tolist()) == list(range(size))


def test_strata_do_not_fix_the_timestep_within_them() -> None:
    t = Stratified(2)(BatchDraws(1, range(0, 200, 2)), DDPMPath(100), SHAPE)
    assert t.max() < 50
    assert len(set(t.tolist())) > 30


def test_strata_are_cut_from_the_law_that_is_given() -> None:
    t = Stratified(4, Range(200, 600))(BatchDraws(1, range(8, 12)), PATH, SHAPE)
    assert sorted(((t - 200) // 100).tolist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("timesteps", [1, 513, 1000])
def test_the_largest_draw_gives_the_last_timestep(timesteps: int) -> None:
    u = torch.tensor([0.0, 1 - 2**-24]).double()
    assert UniformTimesteps().quantile(u, DDPMPath(timesteps), SHAPE).tolist() == [0, timesteps - 1]
    assert levels(DDPMPath(timesteps)).tolist() == list(range(timesteps))


U = torch.linspace(0, 1 - 2**-24, 4001, dtype=torch.float64)


@pytest.mark.parametrize(
    "law", [UniformTimesteps(), LogitNormal(), LogitNormal(-1.2, 1.2), Mode(), Mode(-1.0), CosMap()]
)
def test_a_law_begins_at_pure_noise_and_comes_down_to_the_clean_end(law: QuantileLaw) -> None:
    t = law.quantile(U, FLOW, SHAPE)
    assert t[0] == 1 and t[-1] < 0.01 and (t > 0).all()
    assert (t.diff() <= 1e-6).all()


def test_the_logit_of_a_logit_normal_law_is_normal() -> None:
    draws = BatchDraws(0, range(4000))
    logits = torch.logit(LogitNormal(0.5, 2.0)(draws, FLOW, SHAPE).double())
    assert logits.mean().item() == pytest.approx(0.5, abs=0.1) and logits.std().item() == pytest.approx(2.0, abs=0.1)


def test_cosmap_has_the_density_that_the_paper_gives() -> None:
    """Its distribution function by the integral of 2 / (pi - 2 pi t + 2 pi t^2)."""
    t = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    density = 2 / (math.pi - 2 * math.pi * t + 2 * math.pi * t**2)
    below = torch.cat([torch.zeros(1).double(), torch.cumulative_trapezoid(density, t)])
    drawn = CosMap().quantile(U, FLOW, SHAPE).double()
    torch.testing.assert_close(below[(drawn * 100_000).round().long()], 1 - U, rtol=0, atol=2e-5)


def test_the_law_with_a_mode_has_the_known_quantiles() -> None:
    t = Mode(1.29).quantile(1 - torch.tensor([0.05, 0.5, 0.95]).double(), FLOW, SHAPE)
    torch.testing.assert_close(t, torch.tensor([0.107, 0.5, 0.893]), rtol=0, atol=1e-3)


def test_a_shifted_logit_normal_law_is_one_of_another_mean() -> None:
    moved, other = Shifted(3.0, LogitNormal(0.2, 1.5)), LogitNormal(0.2 + math.log(3), 1.5)
    torch.testing.assert_close(moved.quantile(U, FLOW, SHAPE), other.quantile(U, FLOW, SHAPE))


def test_the_shift_grows_with_the_side_where_one_is_named() -> None:
    alone = Shifted(1.5).quantile(U, FLOW, (4, 64, 64))
    assert torch.equal(Shifted(1.5, base_side=64).quantile(U, FLOW, (4, 64, 64)), alone)
    torch.testing.assert_close(
        Shifted(1.5, base_side=64).quantile(U, FLOW, (4, 128, 128)), Shifted(3.0).quantile(U, FLOW, SHAPE)
    )
    assert torch.equal(Shifted(1.5).quantile(U, FLOW, (4, 128, 128)), alone)


@pytest.mark.parametrize("law", [LogitNormal(), Mode(), CosMap(), Shifted(2.0, LogitNormal())])
def test_a_law_in_log_snr_is_the_same_on_another_path(law: LogSnrLaw) -> None:
    u = torch.linspace(0.1, 0.9, 50, dtype=torch.float64)
    found = PATH.log_snr(law.quantile(u, PATH, SHAPE))
    torch.testing.assert_close(found, law.log_snr(u, FLOW, SHAPE), rtol=0, atol=0.4)  # between its discrete levels
    torch.testing.assert_close(
        FLOW.log_snr(law.quantile(u, FLOW, SHAPE)), law.log_snr(u, PATH, SHAPE), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: LogitNormal(std=0.0),
        lambda: LogitNormal(mean=math.inf),
        lambda: Mode(1.8),
        lambda: Mode(-1.1),
        lambda: Mode(math.nan),
        lambda: Shifted(0.0),
        lambda: Shifted(2.0, base_side=0),
    ],
)
def test_a_law_that_cannot_be_is_a_fault(wrong: Callable[[], object]) -> None:
    with pytest.raises(Fault) as fault:
        wrong()
    assert fault.value.id == "CFG03"
