"""The tiny model of `fixtures/tiny.yaml`, without a Trainer."""

from pathlib import Path
from typing import Any

import yaml

from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.util import instantiate_from_config

CONFIG = Path(__file__).parents[1] / "fixtures" / "tiny.yaml"


def tiny_config(**params: Any) -> dict[str, Any]:
    """The `model` section with some of its params changed."""
    config: dict[str, Any] = yaml.safe_load(CONFIG.read_text())["model"]
    config["params"] |= params
    return config


def tiny_model(**params: Any) -> LatentDiffusion:
    model: LatentDiffusion = instantiate_from_config(tiny_config(**params))
    return model
