"""Tiny random checkpoints in the layout of 2022, made from a config's own networks."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.modules.meta_init import give_memory
from ldm.util import instantiate_from_config
from lun.cli.parser import parse
from lun.run.settings import read_settings

SCHEDULE = ("betas", "alphas_cumprod", "sqrt_alphas_cumprod", "posterior_variance", "posterior_mean_coef1")


def config_of(files: list[Path], data: Path, *overrides: str) -> dict[str, Any]:
    """The configuration that the program makes of these files."""
    return read_settings(parse(["--base", *map(str, files), "--data_root", str(data), *overrides]), None).config


def random_checkpoint(config: dict[str, Any], seed: int = 0) -> dict[str, Tensor]:
    """CompVis' names with random weights, as public .ckpt files have them, schedule and position ids included."""
    model: LatentDiffusion = instantiate_from_config(config["model"])
    state: dict[str, Tensor] = {}
    generator = torch.Generator().manual_seed(seed)
    for part in model.part_recipes().values():
        network = part.build_on_meta()
        give_memory(network)
        for parameter in network.parameters():
            torch.nn.init.normal_(parameter, std=0.05, generator=generator)
        prefix = getattr(network, "disk_prefix", part.prefix)
        state |= {prefix + key: value.detach() for key, value in network.to_disk(dict(network.state_dict())).items()}
    words = [key for key in state if key.endswith("text_model.embeddings.token_embedding.weight")]
    state |= {key.replace("token_embedding.weight", "position_ids"): torch.arange(77)[None] for key in words}
    return state | {name: torch.rand(1000, generator=generator) for name in SCHEDULE}


def averaged(state: dict[str, Tensor], by: float = 1.0) -> dict[str, Tensor]:
    """CompVis' EMA keys for a checkpoint, each weight `by` away from the raw one."""
    unet = {key: value for key, value in state.items() if key.startswith("model.diffusion_model.")}
    names = {key: key.removeprefix("model.").replace(".", "") for key in unet}
    found = {f"model_ema.{names[key]}": value + by for key, value in unet.items()}
    return found | {"model_ema.decay": torch.tensor(0.9999), "model_ema.num_updates": torch.tensor(7)}


def file_of_zeros(path: Path, state: Mapping[str, Tensor]) -> Path:
    """A .safetensors file of zeros that takes no room on disk, whatever the size of its tensors (fp16)."""
    entries, offset = {}, 0
    for name, value in state.items():
        end = offset + 2 * value.numel()
        entries[name] = {"dtype": "F16", "shape": list(value.shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + offset)
    return path


def full_size(config: dict[str, Any]) -> dict[str, Tensor]:
    """Every tensor of the checkpoint that a config's model would be stored in, on the meta device."""
    model: LatentDiffusion = instantiate_from_config(config["model"])
    state: dict[str, Tensor] = {}
    for part in model.part_recipes().values():
        network = part.build_on_meta()
        prefix = getattr(network, "disk_prefix", part.prefix)
        state |= {prefix + key: value for key, value in network.to_disk(dict(network.state_dict())).items()}
    return state
