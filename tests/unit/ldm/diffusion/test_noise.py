"""Noise laws: their variance and correlation, and that an example's noise follows from its slot alone."""

import pytest
import torch

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.noise import Gaussian, NoiseLaw, Offset, Pyramid

LAWS = [Gaussian(), Offset(0.1), Pyramid(0.8, 4)]


@pytest.mark.parametrize("law", LAWS)
def test_an_example_keeps_its_noise_whatever_it_is_batched_with(law: NoiseLaw) -> None:
    together = law(BatchDraws(7, [3, 4, 5]), (2, 8, 6))
    alone = torch.cat([law(BatchDraws(7, [slot]), (2, 8, 6)) for slot in (3, 4, 5)])
    assert together.shape == (3, 2, 8, 6)
    assert torch.equal(together, alone)


@pytest.mark.parametrize("law", LAWS)
def test_another_slot_or_seed_gives_other_noise(law: NoiseLaw) -> None:
    first, second = law(BatchDraws(7, [3, 4]), (1, 4, 4))
    assert not torch.equal(first, second)
    assert not torch.equal(first, law(BatchDraws(8, [3]), (1, 4, 4))[0])


def test_the_offset_is_one_number_for_each_channel_of_each_example() -> None:
    draws = BatchDraws(0, range(3))
    offset = Offset(0.5)(draws, (2, 4, 4)) - Gaussian()(draws, (2, 4, 4))
    torch.testing.assert_close(offset, offset[:, :, :1, :1].expand_as(offset), rtol=0, atol=1e-6)
    assert len(set(offset[:, :, 0, 0].flatten().tolist())) == 6


def test_the_offset_has_the_variance_of_its_strength() -> None:
    draws = BatchDraws(0, range(1000))
    offset = (Offset(0.5)(draws, (4, 1, 1)) - Gaussian()(draws, (4, 1, 1))).flatten()
    assert offset.std().item() == pytest.approx(0.5, rel=0.05)


def test_a_pyramid_has_unit_variance_at_every_pixel() -> None:
    noise = Pyramid(0.9, 3)(BatchDraws(0, range(2000)), (1, 8, 6))
    assert (noise.std(0) - 1).abs().max() < 0.08
    assert noise.mean(0).abs().max() < 0.1


def test_a_pyramid_is_brighter_or_darker_as_a_whole_than_white_noise() -> None:
    draws = BatchDraws(0, range(300))
    white = Gaussian()(draws, (1, 8, 8)).mean((1, 2, 3)).std()
    assert Pyramid(0.9, 3)(draws, (1, 8, 8)).mean((1, 2, 3)).std() > 2 * white


def test_a_pyramid_without_levels_is_white_noise() -> None:
    draws = BatchDraws(0, range(2))
    assert torch.equal(Pyramid(0.9, 0)(draws, (1, 4, 4)), Gaussian()(draws, (1, 4, 4)))


def test_a_pyramid_ends_at_a_single_pixel() -> None:
    draws = BatchDraws(0, range(2))
    assert torch.equal(Pyramid(0.9, 3)(draws, (1, 8, 8)), Pyramid(0.9, 50)(draws, (1, 8, 8)))
