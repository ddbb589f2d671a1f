"""Stable Diffusion 3 of each kind with next to none of its width."""

from typing import Any

import torch
from torch import Tensor, nn

from ldm.diffusion.conditioning import Conditioning
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
