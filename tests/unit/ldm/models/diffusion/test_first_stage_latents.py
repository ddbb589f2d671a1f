"""An autoencoder that is built like another family's: whose latents it makes."""

from pathlib import Path

import pytest
import torch
from diffusers import AutoencoderKL
from support.models import tiny_config
from support.small_sd3 import VAE16

from ldm.errors import Fault
from ldm.files.weights_location import find_source
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.models.diffusion.first_stage_latents import require_same_latents
from ldm.util import instantiate_from_config

FLUX = {"scaling_factor": 0.3611, "shift_factor": 0.1159}


def saved(folder: Path, **changes: float) -> Path:
    torch.manual_seed(0)
    AutoencoderKL(**{**VAE16, **changes}).save_pretrained(folder)
    return folder


def started(first_stage: Path, **params: object) -> LatentDiffusion:
    """A model of Stable Diffusion 3's latents with an autoencoder out of `first_stage`."""
    config = tiny_config(channels=16, **{"scale_factor": 1.5305, "shift_factor": 0.0609, **params})
    stage = config["params"]["first_stage_config"]["params"]
    stage |= {"embed_dim": 16, "ckpt_path": str(first_stage), "from_scratch": False}
    stage["ddconfig"] |= {"z_channels": 16, "quant_conv": False, "double_z": True}
    model: LatentDiffusion = instantiate_from_config(config)
    return model


def test_a_folder_that_says_another_scale_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    started(saved(tmp_path / "own")).require_weights()
    with pytest.raises(Fault, match="makes other latents") as caught:
        started(saved(tmp_path / "flux", **FLUX)).require_weights()
    assert caught.value.id == "MOD03" and "scale 0.3611, shift 0.1159; the config: scale 1.5305" in caught.value.why
    assert "model.params.scale_factor and model.params.shift_factor" in caught.value.fix
    started(tmp_path / "flux", scale_factor=0.3611, shift_factor=0.1159).require_weights()


def test_of_a_lone_file_it_is_said_what_cannot_be_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = saved(tmp_path / "own") / "diffusion_pytorch_model.safetensors"
    started(file).require_weights()
    assert "an autoencoder of Flux has the same names and shapes" in caplog.text and "config.json" in caplog.text
    caplog.clear()
    source, numbers = find_source(file, "vae"), (torch.tensor(1.5305), torch.tensor(0.0609))
    require_same_latents(source, str(file), *numbers, apart=False)  # in a whole model it is the model's
    assert not caplog.messages
