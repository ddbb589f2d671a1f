"""A published Stable Diffusion as a model to draw from: its networks built from what their tensors and facts tell."""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import diffusers

from ldm.convert.diffusers_folder import NOT_ARCHITECTURE
from ldm.convert.model import Model
from ldm.convert.modelspec import side
from ldm.diffusion.masks import RandomRectangles
from ldm.errors import Fault
from ldm.families.facts import NETWORK
from ldm.families.record import Family
from ldm.families.text_encoders import Encoder
from ldm.files.load import load_part
from ldm.keys.split_checkpoint import split_parts
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.diffusion.latent_scale import scale_of_library
from ldm.util import Recipe


def build_published(model: Model) -> LatentDiffusion:
    """A `LatentDiffusion` with the weights of `model`, in evaluation mode.

    Raises `Fault` MOD06 if the UNet, the VAE or the text encoder is not there, MOD03 for what cannot be built.
    """
    family = _require_whole(model)
    pixels = side(model) or 512
    vae = {**model.latent.config(model.first_stage), **model.facts.configs.get("vae", {})}
    if model.facts.scale_factor is not None:
        vae["scaling_factor"] = model.facts.scale_factor
    scale, shift = scale_of_library(vae)
    built = LatentDiffusion(
        first_stage_config=_first_stage(vae),
        cond_stage_config=_cond_stage(model, family),
        unet_config=_unet(model, family),
        image_size=pixels // 2 ** (len(vae["block_out_channels"]) - 1),
        channels=vae["latent_channels"],
        objective=family.objective(model.facts),
        scale_factor=scale,
        shift_factor=shift,
        mask=RandomRectangles() if model.inpaints else None,
    )
    parts = built.part_recipes()
    networks = {name: part.build_on_meta() for name, part in parts.items()}
    split = split_parts(model.state)
    for name, part in parts.items():
        load_part(networks[name], part.among(split), model.source)
    built.adopt(networks)
    return built.eval()


def _require_whole(model: Model) -> Family:
    """The model's family. Raises `Fault` MOD06 if one of the parts that make a picture is not there."""
    missing = [name for name, there in (("UNet", model.unet), ("VAE", model.first_stage)) if not there]
    missing += [] if model.is_told_captions else ["text encoder"]
    if not missing and model.family is not None:
        return model.family
    foreign = model.foreign_text_encoder
    files = [encoder.file for encoder in (model.family.encoders if model.family else ()) if encoder.file]
    apart = f"these files come without {', '.join(files)}" if files and "text encoder" in missing else ""
    raise Fault(
        "MOD06",
        f"{model.source} cannot draw: it has no {' and no '.join(missing)} that is known here",
        why=f"its text encoder is one of its own ({foreign[0]} ...)" if foreign else apart,
        fix="draw from the run that it came from, whose config describes it"
        if foreign
        else "name a whole checkpoint" + (", or a pipeline's folder" if apart else ""),
    )


def _unet(model: Model, family: Family) -> Recipe:
    network = family.network
    stored: Mapping[str, Any] = model.facts.configs.get(NETWORK, {})
    if stored:
        known = inspect.signature(getattr(diffusers, network.library).__init__).parameters
        stored = {key: value for key, value in stored.items() if key in known}
    return {"target": network.target, "params": {**network.settings(model.unet), **stored}}


def _first_stage(vae: Mapping[str, Any]) -> Recipe:
    widths = vae["block_out_channels"]
    ddconfig = {
        "z_channels": vae["latent_channels"],
        "resolution": 256,
        "in_channels": vae["in_channels"],
        "out_ch": vae["out_channels"],
        "ch": widths[0],
        "ch_mult": [width // widths[0] for width in widths],
        "num_res_blocks": vae["layers_per_block"],
        "quant_conv": vae.get("use_quant_conv", True),
    }
    params = {"embed_dim": vae["latent_channels"], "ddconfig": ddconfig}
    return {"target": "ldm.models.autoencoder.AutoencoderKL", "params": params}


def _cond_stage(model: Model, family: Family) -> Recipe:
    configs = [_text(model, encoder) for encoder in model.encoders]
    recipe = family.conditioner(split_parts(model.state).cond_stage, configs, model.unconditional)
    return {**recipe, "params": {**recipe.get("params", {}), **_tokenizers(model)}}


def _tokenizers(model: Model) -> dict[str, str]:
    """{setting of the conditioner, named like the folder of a tokenizer that does not ship: the pipeline with it}."""
    needed = [encoder.tokenizer for encoder in model.encoders if not encoder.spelling.ships_tokenizer]
    return {name: model.source for name in needed if (Path(model.source) / name).is_dir()}


def _text(model: Model, encoder: Encoder) -> dict[str, Any]:
    stored = model.facts.configs.get(encoder.folder, {})
    stored = {key: value for key, value in stored.items() if key not in NOT_ARCHITECTURE}
    return {**encoder.spelling.config(encoder.to_transformers(model.state)), **stored}
