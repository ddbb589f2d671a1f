"""A latent diffusion model of the smallest size, built."""

from typing import Any

import pytest
import torch
from support.models import tiny_model

from ldm.models.diffusion.ddpm import LatentDiffusion


@pytest.fixture
def model() -> LatentDiffusion:
    built = tiny_model()
    built.configure_model()
    return built


@pytest.fixture
def batch() -> dict[str, Any]:
    image = torch.rand(3, 8, 8, 3, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return {"image": image, "caption": ["red a", "green b", "blue c"], "slot": torch.tensor([5, 6, 7])}
