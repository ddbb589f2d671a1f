"""Masks for inpainting."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from ldm.diffusion.draws import BatchDraws
from ldm.diffusion.masks import RandomRectangles


@given(height=st.integers(1, 40), width=st.integers(1, 40), smallest=st.floats(0.05, 1.0))
def test_every_mask_is_one_rectangle_of_at_least_the_smallest_size(height: int, width: int, smallest: float) -> None:
    masks = RandomRectangles(smallest, all_share=0.0)(BatchDraws(0, range(5)), height, width)
    assert masks.shape == (5, 1, height, width)
    for mask in masks[:, 0]:
        rows, columns = mask.any(dim=1).nonzero(), mask.any(dim=0).nonzero()
        tall, wide = int(rows[-1] - rows[0]) + 1, int(columns[-1] - columns[0]) + 1
        assert mask.sum() == tall * wide
        assert tall >= max(1, round(smallest * height)) and wide >= max(1, round(smallest * width))


def test_some_pictures_are_masked_as_a_whole() -> None:
    masks = RandomRectangles(all_share=0.5)(BatchDraws(0, range(200)), 8, 8)
    whole = (masks.flatten(1).mean(dim=1) == 1).float().mean()
    assert 0.4 < whole < 0.6


def test_a_slots_mask_is_the_same_in_any_batch() -> None:
    draw = RandomRectangles()
    assert torch.equal(draw(BatchDraws(3, [7, 8]), 9, 9)[1], draw(BatchDraws(3, [8]), 9, 9)[0])
