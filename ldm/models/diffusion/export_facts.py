"""What a diffusion model knows besides its tensors, for files that other programs are to read."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from ldm.diffusion.prediction_names import LIBRARY_NAMES
from ldm.families.facts import NETWORK, Facts
from ldm.models.diffusion.ddpm import DDPM, LatentDiffusion
from ldm.models.diffusion.latent_scale import library_scale
from ldm.util import setting_of


def facts_of(model: DDPM, networks: Mapping[str, nn.Module]) -> Facts:
    """The facts of `model`; `networks` are those of its `part_recipes` that were built, if only without memory."""
    configs = {NETWORK: networks.get("network"), "vae": networks.get("first stage")}
    latent = model if isinstance(model, LatentDiffusion) else None
    scale = library_scale(latent) if latent else {}
    pixels = getattr(networks.get("first stage"), "downsampling", 8) if latent else 1
    known = {name: config for name, network in configs.items() if (config := _library_config(network))}
    if "vae" in known:
        known["vae"] |= scale
    return Facts(
        prediction=LIBRARY_NAMES[model.objective.prediction],
        scheduler=model.objective.path.scheduler_settings(),
        configs=known,
        resolution=model.image_size * pixels,
        scale_factor=scale.get("scaling_factor"),
        unconditional=setting_of(latent.cond_stage_config, "unconditional") if latent else None,
    )


def _library_config(network: nn.Module | None) -> dict[str, Any]:
    """The arguments that the library's network was made from; {} for a network that is not diffusers'."""
    config = getattr(getattr(network, "network", None), "config", None) or {}
    return {key: value for key, value in config.items() if not key.startswith("_")}


def networks_of(model: DDPM) -> dict[str, nn.Module]:
    """The networks of a model that was built."""
    networks = {"first stage": model.first_stage_model} if isinstance(model, LatentDiffusion) else {}
    return networks | ({"network": model.model.diffusion_model} if model.model is not None else {})


def networks_on_meta(model: DDPM) -> dict[str, nn.Module]:
    """The denoising network and the first stage that `model` would build, without memory; nothing is read."""
    parts = {name: part for name, part in model.part_recipes().items() if name != "text encoder"}
    return {name: part.build_on_meta() for name, part in parts.items()}
