"""A small Stable Diffusion 1.x with random weights, as a folder of diffusers, which all contestants start from.

    python tests/bench/small_model.py FOLDER        # the model and 32 pictures of noise with captions

Its parts stand in the proportions of the real one: the first stage encodes at 46 % of the UNet's training arithmetic.
"""

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from program import ROOT

BLOCKS = {
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
}
PICTURES = 32


class Recipe(NamedTuple):
    """What is trained: `width` channels of the UNet's first level (320 in the real one), pictures of `size` pixels."""

    width: int = 64
    size: int = 128
    batch: int = 4
    context: int = 128

    @property
    def channels(self) -> list[int]:
        return [self.width, 2 * self.width, 4 * self.width, 4 * self.width]


def write_model(folder: Path, recipe: Recipe) -> Path:
    """UNet (34.3 million parameters at width 64), first stage, text encoder, tokenizer and schedule."""
    import torch
    from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    torch.manual_seed(0)
    unet = UNet2DConditionModel(
        sample_size=recipe.size // 8,
        block_out_channels=recipe.channels,
        cross_attention_dim=recipe.context,
        attention_head_dim=8,
        **BLOCKS,
    )
    blocks = {"down_block_types": ["DownEncoderBlock2D"] * 4, "up_block_types": ["UpDecoderBlock2D"] * 4}
    first_stage = AutoencoderKL(block_out_channels=[32, 64, 128, 128], layers_per_block=2, **blocks)
    sizes = {"hidden_size": recipe.context, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
    text = CLIPTextModel(CLIPTextConfig(**sizes, bos_token_id=49406, eos_token_id=49407))
    schedule = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "clip_sample": False}
    schedule |= {"steps_offset": 1}
    parts = {
        "unet": unet,
        "vae": first_stage,
        "text_encoder": text,
        "tokenizer": tokenizer(),
        "scheduler": DDPMScheduler(**schedule),
    }
    for name, part in parts.items():
        part.save_pretrained(folder / name)
    classes = {name: [type(part).__module__.partition(".")[0], type(part).__name__] for name, part in parts.items()}
    index = {"_class_name": "StableDiffusionPipeline", **classes, "safety_checker": [None, None]}
    (folder / "model_index.json").write_text(json.dumps({**index, "feature_extractor": [None, None]}))
    return folder


def tokenizer() -> Any:
    """CLIP's, from the vocabulary that the program ships."""
    from ldm.modules.encoders.tokenizer import BUILT_IN, clip_tokenizer

    return clip_tokenizer(BUILT_IN, 77)


def write_pictures(folder: Path, side: int, count: int = PICTURES) -> Path:
    """JPEG files of noise of `side` x 3/2 `side` pixels with captions."""
    numbers = np.random.default_rng(0)
    for name in ("img", "txt"):
        (folder / name).mkdir(parents=True)
    for number in range(count):
        coarse = numbers.integers(0, 256, (8, 12, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((3 * side // 2, side)).save(folder / "img" / f"{number}.jpg", quality=90)
        (folder / "txt" / f"{number}.txt").write_text(f"picture {number}, noise")
    return folder


def config(recipe: Recipe, model: Path, data: Path) -> dict[str, Any]:
    """The program's default configuration with that model, those pictures, and an average after every step."""
    first_stage = {"double_z": True, "z_channels": 4, "resolution": recipe.size, "in_channels": 3, "out_ch": 3}
    first_stage |= {"ch": 32, "ch_mult": [1, 2, 4, 4], "num_res_blocks": 2, "attn_resolutions": [], "dropout": 0.0}
    text = {"version": str(model), "ckpt_path": str(model)}
    parts = {
        "unet_config": {"target": "ldm.modules.networks.unet.UNet", "params": {"ckpt_path": str(model)}},
        "first_stage_config": {"params": {"ckpt_path": str(model), "ddconfig": first_stage}},
        "cond_stage_config": {"params": text},
    }
    training = {
        "image_size": recipe.size // 8,
        "monitor": None,
        "ucg_rate": 0.0,
        "ema_config": {"target": "ldm.modules.ema.LitEma", "params": {"update_every": 1}},
    }
    pictures = {"target": "lun.data.local.Local", "params": {"data_root": str(data), "size": recipe.size}}
    return {
        "extends": [str(ROOT / "configs" / name) for name in ("training-lightning", "training-txt2img")],
        "model": {"params": {**training, **parts}},
        "data": {"params": {"batch_size": recipe.batch, "num_workers": 0, "train": pictures}},
        "lightning": {
            "trainer": {"accelerator": "cpu"},
            "callbacks": {"image_logger": None, "monitored_checkpoint": None},
        },
    }


def main() -> None:
    import yaml

    folder, recipe = Path(sys.argv[1]), Recipe()
    model = write_model(folder / "model", recipe)
    data = write_pictures(folder / "data", recipe.size)
    (folder / "run.yaml").write_text(yaml.safe_dump(config(recipe, model, data)))


if __name__ == "__main__":
    main()
