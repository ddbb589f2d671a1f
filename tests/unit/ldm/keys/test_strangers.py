"""What a file of a model that is not known here looks like."""

import pytest
import torch

from ldm.errors import Fault
from ldm.families.registry import family_of
from ldm.keys.layout import compvis_names
from ldm.keys.split_checkpoint import UNET, unet_of
from ldm.keys.strangers import looks_like

KEYS = {
    "double_blocks.0.img_attn.qkv.weight": "Flux",
    "single_transformer_blocks.3.proj_mlp.weight": "Flux",
    "double_blocks.0.img_attn_qkv.weight": "HunyuanVideo",
    "joint_transformer_blocks.0.attn.to_q.weight": "AuraFlow",
    "adaln_single.linear.weight": "PixArt",
    "noise_refiner.0.attention.qkv.weight": "Z-Image",
    "blocks.0.cross_attn.norm_k.weight": "Wan",
    "control_model.zero_convs.0.0.weight": "ControlNet",
    "lora_unet_down_blocks_0_attentions_0_proj_in.lora_down.weight": "LoRA",
}


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("prefix", ["", UNET])
def test_one_message_names_what_a_file_looks_like(key: str, prefix: str) -> None:
    state = {prefix + key: torch.zeros(1)}
    with pytest.raises(Fault) as caught:
        family_of(unet_of(compvis_names(state, "a file")), "a file")
    assert caught.value.id == "MOD03" and "it looks like" in caught.value.why and KEYS[key] in caught.value.why


def test_nothing_is_said_of_names_that_nobody_knows() -> None:
    assert looks_like(["what.is.this.weight"]) == ""
