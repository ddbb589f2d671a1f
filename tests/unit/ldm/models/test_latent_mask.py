"""Masks of pictures at the scale of latents."""

import torch

from ldm.models.diffusion.latent_mask import latent_mask


def test_a_latent_counts_as_the_mean_of_its_pixels():
    mask = torch.zeros(1, 4, 8)
    mask[:, :2, :2] = 1
    mask[:, :2, 2:3] = 1
    assert latent_mask(mask, torch.zeros(1, 4, 2, 4)).tolist() == [[[[1.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]]


def test_a_mask_at_the_scale_of_the_latents_stays():
    mask = torch.rand(2, 3, 5)
    assert torch.equal(latent_mask(mask, torch.zeros(2, 4, 3, 5))[:, 0], mask)


def test_without_a_mask_all_counts():
    assert latent_mask(None, torch.zeros(1, 4, 2, 2)) is None
