"""The YAML beside a single file by which A1111's web UI knows what the tensors do not show."""

from collections.abc import Mapping
from typing import Any

import yaml

from ldm.convert.model import Model
from ldm.convert.modelspec import side


def inference_yaml(model: Model) -> str:
    """The model section of a config in CompVis' form, as programs that carry its code read it.

    model  of a family that has an `InferenceYaml`
    """
    assert model.family is not None and model.family.inference is not None
    settings = model.family.inference
    params: dict[str, Any] = {
        "linear_start": model.facts.scheduler.get("beta_start", 0.00085),
        "linear_end": model.facts.scheduler.get("beta_end", 0.012),
        "timesteps": 1000,
        "first_stage_key": "jpg",
        "cond_stage_key": "txt",
        "image_size": (side(model) or 512) // 8,
        "channels": 4,
        "cond_stage_trainable": False,
        "conditioning_key": "hybrid" if model.inpaints else "crossattn",
        "scale_factor": model.facts.scale_factor or model.latent.scale,
        "use_ema": False,
        "parameterization": "v" if model.facts.prediction == "v_prediction" else "eps",
        "unet_config": {
            "target": "ldm.modules.diffusionmodules.openaimodel.UNetModel",
            "params": _unet(model, settings.network),
        },
        "first_stage_config": {"target": "ldm.models.autoencoder.AutoencoderKL", "params": AUTOENCODER},
        "cond_stage_config": settings.encoder,
    }
    kind = "LatentInpaintDiffusion" if model.inpaints else "LatentDiffusion"
    recipe = {"target": f"ldm.models.diffusion.ddpm.{kind}", "params": params}
    return yaml.safe_dump({"model": recipe}, sort_keys=False)


def _unet(model: Model, own: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of CompVis' `UNetModel`; `own` are those in which families differ."""
    width, channels = model.unet["input_blocks.0.0.weight"].shape[:2]
    heads = {key: value for key, value in own.items() if key != "context_dim"}
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
        "context_dim": own["context_dim"],
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
