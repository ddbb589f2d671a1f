"""The YAML beside a single file by which A1111's web UI knows what the tensors do not tell."""

from typing import Any

import yaml

from ldm.convert.model import Model
from ldm.convert.modelspec import side
from ldm.families.flow_marks import is_flow

ENCODER_OF_1 = {"target": "ldm.modules.encoders.modules.FrozenCLIPEmbedder"}
ENCODER_OF_2 = {
    "target": "ldm.modules.encoders.modules.FrozenOpenCLIPEmbedder",
    "params": {"freeze": True, "layer": "penultimate"},
}


def needs_yaml(model: Model) -> bool:
    """Whether readers would have to guess: every 2.x, and 1.x with v-prediction. XL files are marked inside."""
    if is_flow(model.facts.scheduler):
        return False  # it has no word for it
    if model.family == "sd2":
        return True
    return model.family == "sd1" and model.facts.prediction == "v_prediction"


def inference_yaml(model: Model) -> str:
    """The model section of a config in CompVis' form, as programs that carry its code read it."""
    channels = model.unet["input_blocks.0.0.weight"].shape[1]
    inpaints = channels == 9
    params: dict[str, Any] = {
        "linear_start": model.facts.scheduler.get("beta_start", 0.00085),
        "linear_end": model.facts.scheduler.get("beta_end", 0.012),
        "timesteps": 1000,
        "first_stage_key": "jpg",
        "cond_stage_key": "txt",
        "image_size": (side(model) or 512) // 8,
        "channels": 4,
        "cond_stage_trainable": False,
        "conditioning_key": "hybrid" if inpaints else "crossattn",
        "scale_factor": model.facts.scale_factor or 0.18215,
        "use_ema": False,
        "parameterization": "v" if model.facts.prediction == "v_prediction" else "eps",
        "unet_config": {"target": "ldm.modules.diffusionmodules.openaimodel.UNetModel", "params": _unet(model)},
        "first_stage_config": {"target": "ldm.models.autoencoder.AutoencoderKL", "params": AUTOENCODER},
        "cond_stage_config": ENCODER_OF_2 if model.family == "sd2" else ENCODER_OF_1,
    }
    kind = "LatentInpaintDiffusion" if inpaints else "LatentDiffusion"
    recipe = {"target": f"ldm.models.diffusion.ddpm.{kind}", "params": params}
    return yaml.safe_dump({"model": recipe}, sort_keys=False)


def _unet(model: Model) -> dict[str, Any]:
    width, channels = model.unet["input_blocks.0.0.weight"].shape[:2]
    heads: dict[str, Any] = {"num_heads": 8}
    if model.family == "sd2":
        heads = {"num_head_channels": 64, "use_linear_in_transformer": True}
    return {
        "image_size": 32,  # not used
        "in_channels": channels,
        "out_channels": 4,
        "model_channels": width,
        "attention_resolutions": [4, 2, 1],
        "num_res_blocks": 2,
        "channel_mult": [1, 2, 4, 4],
        **heads,
        "use_spatial_transformer": True,
        "transformer_depth": 1,
        "context_dim": 1024 if model.family == "sd2" else 768,
        "use_checkpoint": True,
        "legacy": False,
    }


AUTOENCODER: dict[str, Any] = {
    "embed_dim": 4,
    "monitor": "val/rec_loss",
    "ddconfig": {
        "double_z": True,
        "z_channels": 4,
        "resolution": 256,
        "in_channels": 3,
        "out_ch": 3,
        "ch": 128,
        "ch_mult": [1, 2, 4, 4],
        "num_res_blocks": 2,
        "attn_resolutions": [],
        "dropout": 0.0,
    },
    "lossconfig": {"target": "torch.nn.Identity"},
}
