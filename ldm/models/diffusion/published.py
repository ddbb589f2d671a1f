"""A published Stable Diffusion as a model to draw from: its networks built from their tensors and facts."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ldm.admission import admitted
from ldm.convert.diffusers_folder import INDEX, NOT_ARCHITECTURE
from ldm.convert.model import Model
from ldm.convert.modelspec import side
from ldm.diffusion.masks import RandomRectangles
from ldm.errors import Fault
from ldm.families.facts import NETWORK
from ldm.families.record import Family
from ldm.families.text_encoders import Encoder
from ldm.files.load import load_part
from ldm.files.weights_location import read_json
from ldm.keys.split_checkpoint import split_parts
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.diffusion.latent_scale import scale_of_library
from ldm.modules.encoders.encoder_files import EncoderPaths, read_encoder
from ldm.util import Recipe


def build_published(
    model: Model, encoders: EncoderPaths = MappingProxyType({}), tokenizer: str | None = None
) -> LatentDiffusion:
    """A `LatentDiffusion` with the weights of `model`, in evaluation mode.

    encoders   {text encoder: a file or folder of it, taken instead of the model's; null: zeros stand in its place}
    tokenizer  folder or hub id that has the vocabulary of an encoder whose vocabulary does not ship

    Raises `Fault` MOD06 if the UNet, the VAE or a text encoder is not there and no null says that it shall not be,
    MOD01 for a vocabulary that is not there, MOD03 for what cannot be built.
    """
    model = _with_encoders(model, encoders)
    family = _require_whole(model)
    _require_encoders(model, family, [name for name, path in encoders.items() if path is None])
    pixels = side(model) or 512
    vae = {**model.latent.config(model.first_stage), **model.facts.configs.get("vae", {})}
    if model.facts.scale_factor is not None:
        vae["scaling_factor"] = model.facts.scale_factor
    scale, shift = scale_of_library(vae)
    built = LatentDiffusion(
        first_stage_config=_first_stage(vae),
        cond_stage_config=_cond_stage(model, family, tokenizer),
        unet_config=unet_recipe(model, family),
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
    """The model's family. Raises `Fault` MOD06 if one of the parts that make a picture is not there.

    Text encoders that come in files of their own are another matter: see `_require_encoders`.
    """
    missing = [name for name, there in (("UNet", model.unet), ("VAE", model.first_stage)) if not there]
    apart = model.family is not None and any(encoder.setting for encoder in model.family.encoders)
    missing += [] if model.has_text_encoders or apart else ["text encoder"]
    if not missing and model.family is not None:
        return model.family
    foreign = model.foreign_text_encoder
    raise Fault(
        "MOD06",
        f"{model.source} cannot draw: it has no {' and no '.join(missing)} that is known here",
        why=f"its text encoder is one of its own ({foreign[0]} ...)" if foreign else "",
        fix="draw from the run that it came from, whose config describes it" if foreign else "name a whole checkpoint",
    )


def _with_encoders(model: Model, paths: EncoderPaths) -> Model:
    """The model with text encoders out of files of their own, and without those that are null."""
    known = {encoder.setting: encoder for encoder in (model.family.encoders if model.family else ()) if encoder.setting}
    for name, path in paths.items():
        if name not in known:
            why = f"there are {', '.join(known)}" if known else "its text encoders come with it"
            raise Fault("CFG03", f"{model.source} has no text encoder {name} to be named", why=why)
        encoder = known[name]
        state = {key: value for key, value in model.state.items() if not key.startswith(encoder.prefix)}
        own = read_encoder(path, encoder) if path else {}
        if path and not (own and encoder.to_transformers(own)):
            raise Fault("MOD03", f"{path} holds no text encoder", fix=f"name {encoder.file}")
        model = replace(model, state=state | own)
    return model


def _require_encoders(model: Model, family: Family, without: Sequence[str]) -> None:
    """Raise `Fault` MOD06 for a text encoder that is not there, unless zeros are asked for in its place.

    The index of a pipeline's folder says itself which ones it goes without.
    """
    index = Path(model.source) / INDEX
    listed = read_json(index) if index.is_file() else {}
    null = {encoder.folder for encoder in family.encoders if listed.get(encoder.folder) == [None, None]}
    there = {encoder.folder for encoder in model.encoders}
    lacking = [e for e in family.encoders if e.setting and e.setting not in without and e.folder not in there | null]
    if not lacking:
        return
    raise Fault(
        "MOD06",
        f"{model.source} cannot draw without {', '.join(encoder.file for encoder in lacking)}",
        why="it comes without; how a picture looks depends on each of its text encoders",
        fix=" ".join(f"text_encoder.{encoder.setting}=text_encoders/{encoder.file}" for encoder in lacking)
        + "\nor on zeros in the place: "
        + " ".join(f"text_encoder.{encoder.setting}=null" for encoder in lacking),
    )


def unet_recipe(model: Model, family: Family) -> Recipe:
    """Of the network of a model of this family, by its tensors and what is known of it."""
    network = family.network
    stored: Mapping[str, Any] = model.facts.configs.get(NETWORK, {})
    if stored:
        import diffusers

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


def text_encoder_recipe(model: Model, family: Family) -> Recipe:
    """Of what turns captions into a `Conditioning` in a model of this family, without its vocabularies."""
    configs = [_text(model, encoder) for encoder in model.encoders]
    return family.conditioner(split_parts(model.state).cond_stage, configs, model.unconditional)


def _cond_stage(model: Model, family: Family, tokenizer: str | None) -> Recipe:
    recipe = text_encoder_recipe(model, family)
    params = {**recipe.get("params", {}), **_tokenizers(model, tokenizer)}
    try:
        getattr(admitted(recipe["target"]), "require_files", lambda params: None)(params)
    except Fault as fault:
        files = ", ".join(encoder.tokenizer for encoder in model.encoders if not encoder.spelling.ships_tokenizer)
        fix = f"tokenizer=FOLDER, of a pipeline that has {files}\nor go without: text_encoder.t5=null"
        raise Fault(fault.id, fault.what, why=fault.why, fix=fix) from fault
    return {**recipe, "params": params}


def _tokenizers(model: Model, given: str | None) -> dict[str, str]:
    """{setting of the conditioner, named like the folder of a tokenizer that does not ship: the folder with it}."""
    needed = [encoder.tokenizer for encoder in model.encoders if not encoder.spelling.ships_tokenizer]
    if given:
        return dict.fromkeys(needed, given)
    return {name: model.source for name in needed if (Path(model.source) / name).is_dir()}


def _text(model: Model, encoder: Encoder) -> dict[str, Any]:
    stored = model.facts.configs.get(encoder.folder, {})
    stored = {key: value for key, value in stored.items() if key not in NOT_ARCHITECTURE}
    return {**encoder.spelling.config(encoder.to_transformers(model.state)), **stored}
