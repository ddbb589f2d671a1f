"""A run of Stable Diffusion 3 into files of both layouts, with its average, drawn from and trained on again."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from diffusers import SD3Transformer2DModel
from safetensors.torch import load_file
from support.runs import TINY, load, newest_run
from support.sd3 import CLIP_G, CLIP_L, T5, VOCABULARY
from support.small_sd3 import MMDIT

from ldm.keys.mmdit import mmdit_to_library
from ldm.keys.split_checkpoint import UNET, unet_of
from lun.convert.command import run as convert
from lun.sample.command import run as sample
from lun.trainer import run as train

CLIP = {**CLIP_L, "hidden_size": 64, "num_attention_heads": 1}
WIDTHS: dict[str, Any] = {"joint_attention_dim": 160, "pooled_projection_dim": 64 + CLIP_G["projection_dim"]}


def config(pictures: Path) -> dict[str, Any]:
    """The program at its smallest size, with Stable Diffusion 3's parts."""
    whole: dict[str, Any] = yaml.safe_load(TINY.read_text())
    params = whole["model"]["params"]
    for name in ("linear_start", "linear_end", "scheduler_config", "ucg_rate"):
        del params[name]
    network = {**MMDIT, **WIDTHS, "num_layers": 2, "from_scratch": True}
    encoders = {"clip": CLIP, "open_clip": {**CLIP, **{"projection_dim": CLIP_G["projection_dim"]}}}
    encoders |= {"t5": {**T5, "d_model": 160}, "t5_length": 8, "tokenizer_3": str(VOCABULARY), "from_scratch": True}
    path = {"target": "ldm.diffusion.rectified_flow.RectifiedFlow", "params": {"sampling_shift": 3.0}}
    params |= {
        "channels": 16,
        "cond_stage_trainable": False,
        "scale_factor": 1.5305,
        "shift_factor": 0.0609,
        "objective": {"target": "ldm.diffusion.objective.Objective", "params": {"path": path, "prediction": "flow"}},
        "unet_config": {"target": "ldm.modules.networks.mmdit.MMDiT", "params": network},
        "cond_stage_config": {"target": "ldm.modules.encoders.sd3.SD3Conditioner", "params": encoders},
    }
    autoencoder = params["first_stage_config"]["params"]
    autoencoder["embed_dim"] = 16
    autoencoder["ddconfig"] |= {"z_channels": 16, "quant_conv": False}
    whole["data"]["params"]["train"]["params"]["data_root"] = str(pictures)
    whole["lightning"]["trainer"]["max_steps"] = 2
    return whole


def test_a_run_reaches_other_programs_with_its_average_and_comes_back(
    tmp_path: Path, pictures: Path, caplog: pytest.LogCaptureFixture
) -> None:
    base = tmp_path / "sd3.yaml"
    base.write_text(yaml.safe_dump(config(pictures)))
    assert train(["--base", str(base), "--logdir", str(tmp_path / "logs"), "-t"]) == 0
    run = newest_run(tmp_path / "logs")
    stored = load(run / "checkpoints" / "last.ckpt")["state_dict"]
    joined = "joint_blocks.0.x_block.attn.qkv.weight"
    average = stored["model_ema.diffusion_model" + joined.replace(".", "")]
    assert not torch.equal(average, stored[UNET + joined])

    file, folder = tmp_path / "a.safetensors", tmp_path / "folder"
    assert convert([str(run), str(file), "--to", "ldm", "--ema"]) == 0
    assert convert([str(run), str(folder), "--to", "diffusers", "--ema"]) == 0
    exported = load_file(file)
    assert torch.equal(exported[UNET + joined], average)
    opened = SD3Transformer2DModel.from_pretrained(folder / "transformer", local_files_only=True).state_dict()
    ours = mmdit_to_library(unet_of(exported))
    assert opened.keys() == ours.keys() and all(torch.equal(opened[key], value) for key, value in ours.items())

    # A resume goes on with the average; a run is drawn from, and its file is trained on.
    assert train(["lightning.trainer.max_steps=3", "--resume", str(run), "-t"]) == 0
    words = ["red", "--steps", "2", "--guidance", "1", "--raw", "-o", str(tmp_path / "drawn")]
    assert sample([str(run), *words]) == 0
    again = ["--base", str(base), "--logdir", str(tmp_path / "again"), "--init-from", str(file), "--max_steps", "1"]
    assert train([*again, "-t"]) == 0
    assert "MMDiT, VAE, text encoder of width 64" in caplog.text
