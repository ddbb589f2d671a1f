"""A law restricted to a range of levels for each example: within it, all of it, and as the law has it there."""

import pytest
import torch

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.diffusion.timestep_ranges import restricted
from ldm.diffusion.timesteps import LogitNormal, Mode, Range, Shifted, Stratified, UniformTimesteps
from ldm.errors import Fault

LAWS = [UniformTimesteps(), Range(100, 900), LogitNormal(), Mode(), Shifted(3.0, LogitNormal()), Stratified(4)]
PATHS = [DDPMPath(1000), RectifiedFlow()]
SHAPE = (4, 8, 8)


def levels(t: torch.Tensor, path) -> torch.Tensor:
    return t if path.discrete else (t.double() * path.timesteps).ceil() - 1


@pytest.mark.parametrize("path", PATHS, ids=["ddpm", "flow"])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_each_example_stays_in_its_own_range(law, path):
    ranges = torch.tensor([[0, 300], [300, 305], [700, -1]]).repeat(40, 1)
    found = levels(restricted(law, ranges)(BatchDraws(1, range(120)), path, SHAPE), path)
    low, high = ranges.unbind(1)
    assert ((found >= low) & (found < torch.where(high < 0, 1000, high))).all()
    assert len(set(found[1::3].tolist())) == 5 or not path.discrete
    assert found[::3].max() - found[::3].min() > 100


@pytest.mark.parametrize("path", PATHS, ids=["ddpm", "flow"])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_a_range_of_all_levels_changes_nothing(law, path):
    draws, whole = BatchDraws(1, range(16)), torch.tensor([[0, 1000], [0, -1]]).repeat(8, 1)
    assert torch.allclose(restricted(law, whole)(draws, path, SHAPE), law(draws, path, SHAPE))


def test_within_the_range_the_law_keeps_its_shape():
    path, draws = DDPMPath(1000), BatchDraws(0, range(3000))
    part = restricted(LogitNormal(), torch.tensor([[200, 600]]).repeat(3000, 1))(draws, path, SHAPE).double()
    whole = LogitNormal()(draws, path, SHAPE).double()
    kept = whole[(whole >= 200) & (whole < 600)]
    assert abs(part.mean() - kept.mean()) < 8
    assert abs(part.std() - kept.std()) < 8


@pytest.mark.parametrize("wanted", [[0, 1001], [0, 50], [950, -1]])
def test_a_range_without_levels_is_a_fault(wanted):
    with pytest.raises(Fault, match="trains no timestep"):
        restricted(Range(100, 900), torch.tensor([wanted]))(BatchDraws(0, [1]), DDPMPath(1000), SHAPE)


def test_a_law_without_quantiles_cannot_be_restricted():
    with pytest.raises(Fault, match="given by its quantiles"):
        restricted(lambda draws, path, shape: torch.zeros(1), torch.tensor([[0, 1]]))
