"""The networks of Stable Diffusion 1.x, XL and 3 at the smallest size, with adapters that have learned something."""

from typing import Any

import torch
from support.sd3 import tiny_conditioner, tiny_mmdit
from torch import nn

from ldm.adapters import Adapters
from ldm.families.record import Family
from ldm.families.sd1 import SD1
from ldm.families.sd3 import SD3
from ldm.families.sdxl import SDXL
from ldm.modules.encoders.clip import FrozenCLIPEmbedder
from ldm.modules.encoders.sdxl import SDXLConditioner
from ldm.modules.networks.unet import UNet

CLIP: dict[str, Any] = {
    "vocab_size": 49408,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "projection_dim": 8,
}
SHAPE: dict[str, Any] = {
    "sample_size": 4,
    "block_out_channels": [8, 16],
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
    "layers_per_block": 1,
    "attention_head_dim": 2,
    "norm_num_groups": 4,
    "cross_attention_dim": 8,
}
TOLD = {
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 2,
    "projection_class_embeddings_input_dim": 8 + 12,
    "use_linear_projection": True,
    "cross_attention_dim": 16,
}
FAMILIES: dict[str, Family] = {"SD 1.x": SD1, "SDXL": SDXL, "SD 3": SD3}
OF_UNETS = ("unet.*attn1.*", "unet.*conv1", "unet.*proj_in", "unet.*time_emb_proj", "text_encoder*self_attn.*")
MATCHES: dict[str, tuple[str, ...]] = {
    "SD 1.x": OF_UNETS,
    "SDXL": OF_UNETS,
    "SD 3": (
        *("unet.*attn*.to_q", "unet.*attn*.to_v", "unet.*attn.add_k_proj", "unet.norm_out.linear"),
        *("unet.transformer_blocks.2.norm1_context.linear", "unet.pos_embed.proj", "unet.*ff.net.2"),
        *("text_encoder.*v_proj", "text_encoder_2.*v_proj"),
    ),
}
"""Layers of each kind that files tell apart."""


def tiny_networks(family: str) -> dict[str, nn.Module]:
    """By the first word of their layers' names in rules."""
    torch.manual_seed(0)
    if family == "SD 1.x":
        encoder: nn.Module = FrozenCLIPEmbedder(from_scratch=True, config=CLIP)
        return {"unet": UNet(from_scratch=True, **SHAPE), "text_encoder": encoder}
    if family == "SD 3":
        return {"unet": tiny_mmdit("medium 3.5"), "text_encoder": tiny_conditioner()}
    encoder = SDXLConditioner(clip=CLIP, open_clip=CLIP, from_scratch=True)
    return {"unet": UNet(from_scratch=True, **SHAPE | TOLD), "text_encoder": encoder}


def adapt(networks: dict[str, nn.Module], *matches: str, target: str = "ldm.adapters.LoRA") -> None:
    """Add adapters of mixed ranks, with an alpha that is none of them, and move them."""
    kinds = [{"target": target, "params": {"rank": 2 + rank, "alpha": 3.0}} for rank in range(len(matches))]
    rules = {f"rule {i}": {"match": match, "kind": kinds[i]} for i, match in enumerate(matches)}
    Adapters(rules)(networks, seed=1)
    generator = torch.Generator().manual_seed(4)
    for network in networks.values():
        for name, parameter in network.named_parameters():
            if ".adapter." in name:
                parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
