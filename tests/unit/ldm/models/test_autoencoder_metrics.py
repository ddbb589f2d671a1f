"""Measures of quality against numbers computed by hand, and means that do not depend on the batches."""

import math

import pytest
import torch
from support.on_metal import on_metal
from torch import Tensor

from ldm.models.autoencoder_metrics import Quality, latent_statistics, psnr, ssim


def as_it_is(tensor: Tensor, reduce_op: str) -> Tensor:
    return tensor


def pictures(count: int, seed: int) -> Tensor:
    return torch.rand(count, 3, 16, 16, generator=torch.Generator().manual_seed(seed)) * 2 - 1


def test_noise_ratio_by_hand() -> None:
    real = torch.zeros(2, 3, 4, 4)
    made = torch.stack([torch.full((3, 4, 4), 0.2), torch.full((3, 4, 4), 0.02)])
    assert psnr(real, made).tolist() == pytest.approx([20.0, 40.0], rel=1e-5)


def test_values_out_of_range_are_measured_as_they_are_shown() -> None:
    assert psnr(torch.ones(1, 3, 4, 4), torch.full((1, 3, 4, 4), 7.0)).item() > 100


def test_similarity_is_one_for_the_same_picture_and_less_for_another() -> None:
    same = ssim(pictures(2, 0), pictures(2, 0))
    assert torch.allclose(same, torch.ones(2))
    assert (ssim(pictures(2, 0), pictures(2, 1)) < 0.5).all()


def test_latent_statistics_by_hand() -> None:
    # channel 0: 1, 3; channel 1: -2, -2
    found = latent_statistics(torch.tensor([[2.0, 2.0], [4.0, -4.0], [10.0, 8.0]]))
    assert [found["latent_mean_0"].item(), found["latent_mean_1"].item()] == [2.0, -2.0]
    assert [found["latent_std_0"].item(), found["latent_std_1"].item()] == [1.0, 0.0]
    assert found["scale_factor"].item() == pytest.approx(1 / math.sqrt(18 / 4))


def test_means_do_not_depend_on_how_pictures_are_batched() -> None:
    real, made, latents = pictures(5, 0), pictures(5, 1), torch.randn(5, 4, 2, 2)
    found = []
    for sizes in ((5,), (2, 3), (1, 1, 1, 2)):
        quality = Quality()
        for r, m, z in zip(real.split(sizes), made.split(sizes), latents.split(sizes), strict=True):
            quality.add(r, m, z, {"rec_loss": (r - m).abs().mean()})
        found.append(quality.metrics(as_it_is))
    assert found[0]["rec_loss"].item() == pytest.approx((real - made).abs().mean().item(), rel=1e-5)
    assert found[0]["scale_factor"].item() == pytest.approx(1 / latents.std(correction=0).item(), rel=1e-5)
    for other in found[1:]:
        assert {name: value.item() for name, value in other.items()} == pytest.approx(
            {name: value.item() for name, value in found[0].items()}, rel=1e-5
        )


def test_latents_are_measured_where_the_device_has_no_float64() -> None:
    latents, quality = torch.randn(2, 4, 2, 2), Quality()
    quality.add(pictures(2, 0), pictures(2, 1), on_metal(latents), {})
    wanted = 1 / latents.std(correction=0).item()
    assert quality.metrics(as_it_is)["scale_factor"].item() == pytest.approx(wanted, rel=1e-5)
