"""Stable Diffusion 3 of each kind with next to none of its width."""

from pathlib import Path
from typing import Any

import torch
import yaml
from support.runs import TINY as CONFIG
from torch import Tensor, nn
from transformers import T5TokenizerFast

from ldm.diffusion.conditioning import Conditioning
from ldm.files.write import write_safetensors
from ldm.keys.split_checkpoint import below
from ldm.keys.text_encoders import T5_EMBEDDED
from ldm.modules.encoders.sd3 import ENCODER_PLACES, SD3Conditioner
from ldm.modules.networks.mmdit import MMDiT

TINY: dict[str, Any] = {
    "sample_size": 8,
    "in_channels": 4,
    "out_channels": 4,
    "num_layers": 3,
    "attention_head_dim": 8,
    "num_attention_heads": 2,
    "caption_projection_dim": 16,
    "joint_attention_dim": 24,
    "pooled_projection_dim": 12,
    "pos_embed_max_size": 12,
}
KINDS: dict[str, dict[str, Any]] = {
    "medium": {},
    "medium 3.5": {"qk_norm": "rms_norm", "dual_attention_layers": [0, 1]},
    "large 3.5": {"qk_norm": "rms_norm", "num_layers": 2},
}


def tiny_mmdit(kind: str = "medium", **params: Any) -> MMDiT:
    """The same random numbers each time, none of them zero, which would hide a mistake."""
    torch.manual_seed(0)
    network = MMDiT(from_scratch=True, **{**TINY, **KINDS[kind], **params})
    return shaken(network)


def shaken(network: Any) -> Any:
    with torch.no_grad():
        for value in network.parameters():
            value.add_(0.1 * torch.randn_like(value))
    return network


def told(count: int = 2) -> Conditioning:
    rows = torch.Generator().manual_seed(1)
    return Conditioning(torch.randn(count, 5, 24, generator=rows), torch.randn(count, 12, generator=rows))


def unused(network: nn.Module, output: Tensor) -> set[str]:
    """The parameters of `network` of which `output` does not depend."""
    output.square().sum().backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    return {name for name, gradient in gradients.items() if gradient is None or not gradient.any()}


VOCABULARY = Path(__file__).parents[1] / "fixtures" / "t5"
"""A pipeline's folder that holds a vocabulary of T5's kind: few words, the others letter by letter."""

PIECES = 64
CLIP_L: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
CLIP_G: dict[str, Any] = {**CLIP_L, "projection_dim": 4}
T5: dict[str, Any] = {"vocab_size": PIECES, "d_model": 24, "d_ff": 16, "d_kv": 4, "num_layers": 2, "num_heads": 2}


ENCODERS = {"clip": CLIP_L, "open_clip": CLIP_G, "t5": T5, "t5_length": 8, "tokenizer_3": str(VOCABULARY)}


def t5_tokenizer() -> T5TokenizerFast:
    tokenizer: T5TokenizerFast = T5TokenizerFast.from_pretrained(str(VOCABULARY / "tokenizer_3"))
    return tokenizer


def tiny_conditioner(**params: Any) -> SD3Conditioner:
    torch.manual_seed(0)
    settings = {"clip": CLIP_L, "open_clip": CLIP_G, "t5": T5, "t5_length": 16, "tokenizer_3": str(VOCABULARY)}
    return shaken(SD3Conditioner(from_scratch=True, **{**settings, **params})).eval()


def write_encoders(folder: Path, *names: str, **params: Any) -> dict[str, Path]:
    """{setting: file} of the encoders of `tiny_conditioner`, each alone under the names that such files use."""
    state = tiny_conditioner(**params).state_dict()
    settings = {setting: place for setting, place in ENCODER_PLACES.items() if setting in (names or ENCODER_PLACES)}
    files = {setting: folder / place.encoder.file for setting, place in settings.items()}
    for setting, file in files.items():
        own = below(state, f"{settings[setting].name}.transformer.")
        write_safetensors(file, {key: value for key, value in own.items() if key != T5_EMBEDDED})
    return files


def small_config(folder: Path) -> Path:
    """Everything that `configs/models/sd35-medium.yaml` sets, at the smallest size."""
    network = {**TINY, "qk_norm": "rms_norm", "dual_attention_layers": [0], "positions": "random"}
    params: dict[str, Any] = {
        "parameterization": "flow",
        "linear_start": 1.0e-4,
        "linear_end": 2.0e-2,
        "scale_factor": 1.5305,
        "shift_factor": 0.0609,
        "cond_stage_trainable": False,
        "encoder_ucg_rate": {"t5": 0.5},
        "objective": {
            "target": "ldm.diffusion.objective.Objective",
            "params": {
                "path": {
                    "target": "ldm.diffusion.rectified_flow.RectifiedFlow",
                    "params": {"sampling_shift": 3.0, "spacing": "linspace"},
                }
            },
        },
        "unet_config": {"target": "ldm.modules.networks.mmdit.MMDiT", "params": {"from_scratch": True, **network}},
        "cond_stage_config": {
            "target": "ldm.modules.encoders.sd3.SD3Conditioner",
            "params": {"from_scratch": True, **ENCODERS},
        },
    }
    base = yaml.safe_load(CONFIG.read_text("utf-8"))
    base["model"]["params"] |= params
    base["model"]["params"]["first_stage_config"]["params"]["ddconfig"]["quant_conv"] = False
    (folder / "sd3.yaml").write_text(yaml.safe_dump(base))
    return folder / "sd3.yaml"
