"""Timestep laws: what they cover, and that an example's timestep follows from its slot alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.path import DDPMPath, levels
from ldm.diffusion.timesteps import Range, Stratified, TimestepLaw, UniformTimesteps
from ldm.errors import Fault

LAWS = [UniformTimesteps(), Range(100, 900), Stratified(4), Stratified(4, Range(100, 900))]
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
