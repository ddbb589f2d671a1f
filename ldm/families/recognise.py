"""Which Stable Diffusion a set of tensors belongs to, told from names and shapes alone; never guessed."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ldm.files.state import State
from ldm.keys.parts import Parts

WIDTH = 320  # channels at the first level of every full-size UNet of the family
INPUT = ("input_blocks.0.0.weight", "conv_in.weight")
LABELS = ("label_emb.0.0.weight", "add_embedding.linear_1.weight")
TOKENS = ("token_embedding.weight", "embeddings.token_embedding.weight")

Unconditional = Literal["zeros", "empty caption"]
"""What stands for no caption, in training and in guidance: zeros, or the encoded empty caption."""


@dataclass(frozen=True)
class Family:
    """A public line of models.

    name           as people write it
    facts          by what it is recognised, for messages
    config         the shipped config that builds it, empty where there is none
    unconditional  what its published models were trained with
    """

    name: str
    facts: str
    config: str = ""
    unconditional: Unconditional = "empty caption"


SD1 = Family("Stable Diffusion 1.x", "context 768", "configs/models/sd15.yaml")
SD1_INPAINTING = Family(
    "Stable Diffusion 1.x inpainting", "context 768, 9 input channels", "configs/models/sd15-inpainting.yaml"
)
SD2 = Family(
    "Stable Diffusion 2.x",
    "context 1024, linear projections",
    "configs/models/sd21-v.yaml (768 pixels, v) or configs/models/sd21-base.yaml (512 pixels, eps)",
)
SD2_INPAINTING = Family("Stable Diffusion 2.x inpainting", "context 1024, 9 input channels")
SDXL = Family("Stable Diffusion XL", "context 2048, two text encoders", "configs/models/sdxl.yaml", "zeros")
SDXL_INPAINTING = Family("Stable Diffusion XL inpainting", "context 2048, 9 input channels", unconditional="zeros")
SDXL_REFINER = Family("Stable Diffusion XL refiner", "context 1280")

BY_CONTEXT_AND_CHANNELS: Mapping[tuple[int, int], Family] = {
    (768, 4): SD1,
    (768, 9): SD1_INPAINTING,
    (768, 8): Family("InstructPix2Pix", "context 768, 8 input channels"),
    (1024, 4): SD2,
    (1024, 9): SD2_INPAINTING,
    (1024, 5): Family("Stable Diffusion 2.x depth", "context 1024, 5 input channels"),
    (1024, 7): Family("Stable Diffusion 2.x upscaler", "context 1024, 7 input channels"),
    (2048, 4): SDXL,
    (2048, 9): SDXL_INPAINTING,
    (1280, 4): SDXL_REFINER,
}
NEEDS_LABELS = (2048, 1280)
TEXT_WIDTHS = {768: "CLIP ViT-L", 1024: "OpenCLIP ViT-H", 1280: "OpenCLIP ViT-bigG"}


def unet_family(unet: State) -> Family | None:
    """The family of a UNet's tensors, under CompVis' or diffusers' names without prefix; None for any other network."""
    first = next((unet[name] for name in INPUT if name in unet), None)
    context = next((value.shape[-1] for key, value in unet.items() if key.endswith(".attn2.to_k.weight")), None)
    if first is None or context is None or first.shape[0] not in (WIDTH, 384):
        return None
    family = BY_CONTEXT_AND_CHANNELS.get((context, first.shape[1]))
    labelled = any(name in unet for name in LABELS)
    if (first.shape[0] == 384) != (family is SDXL_REFINER) or labelled != (context in NEEDS_LABELS):
        return None
    return family


def text_encoders(cond_stage: State) -> tuple[str, ...]:
    """The encoders that a checkpoint holds, by the width of their tokens: `CLIP ViT-L`, `OpenCLIP ViT-H`, ..."""
    widths = [value.shape[-1] for key, value in sorted(cond_stage.items()) if key.endswith(TOKENS)]
    return tuple(TEXT_WIDTHS.get(width, f"text encoder of width {width}") for width in widths)


def named_parts(parts: Parts) -> tuple[str, ...]:
    """What a checkpoint holds, in the words of messages."""
    unet = "UNet" if parts.unet else ""
    first_stage = "VAE" if parts.first_stage else ""
    averaged = "EMA" if any(key not in ("decay", "num_updates") for key in parts.ema) else ""
    encoders = text_encoders(parts.cond_stage) or (("text encoder",) if parts.cond_stage else ())
    return tuple(name for name in (unet, first_stage, *encoders, averaged) if name)
