"""A published Stable Diffusion as a model to draw from: its networks built from what their tensors and facts tell."""

import inspect
from collections.abc import Mapping
from typing import Any

from diffusers import UNet2DConditionModel

from ldm.convert.model import Facts, Model
from ldm.convert.modelspec import side
from ldm.convert.pipeline import NOT_ARCHITECTURE
from ldm.diffusion.masks import RandomRectangles
from ldm.diffusion.objective import Objective
from ldm.diffusion.path import DDPMPath
from ldm.diffusion.rectified_flow import RectifiedFlow
from ldm.errors import Fault
from ldm.families.flow_marks import is_flow
from ldm.families.infer_config import text_config, unet_config, vae_config
from ldm.families.text_encoders import Encoder
from ldm.files.load import load_part
from ldm.keys.parts import split_parts
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.diffusion.facts import PREDICTIONS
from ldm.util import Recipe

SCHEDULES: Mapping[str, Any] = {"scaled_linear": "linear", "linear": "sqrt_linear"}
INPAINTING_CHANNELS = 9
PIXELS = 8  # per latent, a side


def build_published(model: Model) -> LatentDiffusion:
    """A `LatentDiffusion` with the weights of `model`, in evaluation mode.

    Raises `Fault` MOD06 if the UNet, the VAE or the text encoder is not there, MOD03 for what cannot be built.
    """
    _require_whole(model)
    pixels = side(model) or 512
    vae = {**vae_config(model.first_stage, model.family), **model.facts.configs.get("vae", {})}
    built = LatentDiffusion(
        first_stage_config=_first_stage(vae),
        cond_stage_config=_cond_stage(model),
        unet_config=_unet(model),
        image_size=pixels // PIXELS,
        channels=vae["latent_channels"],
        objective=_objective(model.facts),
        scale_factor=model.facts.scale_factor or vae["scaling_factor"],
        mask=RandomRectangles() if _input_channels(model) == INPAINTING_CHANNELS else None,
    )
    parts = built.part_recipes()
    networks = {name: part.build_on_meta() for name, part in parts.items()}
    found = split_parts(model.state)
    for name, part in parts.items():
        load_part(networks[name], part.among(found), model.source)
    built.adopt(networks)
    return built.eval()


def _require_whole(model: Model) -> None:
    missing = [name for name, there in (("UNet", model.unet), ("VAE", model.first_stage)) if not there]
    missing += [] if model.encoders else ["text encoder"]
    if not missing:
        return
    foreign = model.foreign_text_encoder
    raise Fault(
        "MOD06",
        f"{model.source} cannot draw: it has no {' and no '.join(missing)} that is known here",
        why=f"its text encoder is one of its own ({foreign[0]} ...)" if foreign else "",
        fix="draw from the run that it came from, whose config describes it" if foreign else "name a whole checkpoint",
    )


def _input_channels(model: Model) -> int:
    return int(model.unet["input_blocks.0.0.weight"].shape[1])


def _unet(model: Model) -> Recipe:
    assert model.family is not None
    known = inspect.signature(UNet2DConditionModel.__init__).parameters
    stored = {key: value for key, value in model.facts.configs.get("unet", {}).items() if key in known}
    params = {**unet_config(model.unet, model.family), **stored}
    return {"target": "ldm.modules.networks.unet.UNet", "params": params}


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
    }
    params = {"embed_dim": vae["latent_channels"], "ddconfig": ddconfig}
    return {"target": "ldm.models.autoencoder.AutoencoderKL", "params": params}


def _cond_stage(model: Model) -> Recipe:
    configs = [_text(model, encoder) for encoder in model.encoders]
    if model.family == "sdxl":
        params = {"clip": configs[0], "open_clip": configs[-1], "unconditional": model.unconditional}
        return {"target": "ldm.modules.encoders.sdxl.SDXLConditioner", "params": params}
    embedder = "clip.FrozenCLIPEmbedder" if model.family == "sd1" else "openclip.FrozenOpenCLIPEmbedder"
    return {"target": f"ldm.modules.encoders.{embedder}", "params": {"config": configs[0]}}


def _text(model: Model, encoder: Encoder) -> dict[str, Any]:
    stored = model.facts.configs.get(encoder.folder, {})
    stored = {key: value for key, value in stored.items() if key not in NOT_ARCHITECTURE}
    return {**text_config(encoder.to_transformers(model.state), encoder.activation), **stored}


def _objective(facts: Facts) -> Objective:
    told = facts.scheduler
    if is_flow(told):
        return Objective(RectifiedFlow(told.get("num_train_timesteps", 1000), told["flow_shift"]), "flow")
    if "trained_betas" in told or told.get("beta_schedule", "scaled_linear") not in SCHEDULES:
        raise Fault(
            "MOD03",
            "its noise schedule is one that cannot be told from a file",
            why=f"known are {', '.join(SCHEDULES)}; it says {told.get('beta_schedule', 'a table of its own')}",
            fix="draw from the run that it came from, whose config describes it",
        )
    path = DDPMPath(
        timesteps=told.get("num_train_timesteps", 1000),
        beta_schedule=SCHEDULES[told.get("beta_schedule", "scaled_linear")],
        linear_start=told.get("beta_start", 0.00085),
        linear_end=told.get("beta_end", 0.012),
        zero_terminal_snr=facts.zero_terminal_snr,
    )
    ours = {theirs: mine for mine, theirs in PREDICTIONS.items()}
    return Objective(path, ours[facts.prediction or "epsilon"])
