"""Stable Diffusion 1.x (Rombach et al. 2022, arXiv 2112.10752): CLIP ViT-L, heads of an eighth of the width."""

from collections.abc import Mapping, Sequence
from typing import Any

from ldm.families.facts import Unconditional
from ldm.families.record import AdapterNames, Family, InferenceYaml, Latent, PipelineLayout, Spec, Variant
from ldm.families.spellings import Clip
from ldm.families.stable_diffusion import (
    SCHEDULER,
    WIDTHS,
    V,
    has_size_embedding,
    no_checker,
    not_converted,
    of_shape,
    projections,
    stable_objective,
    unet_network,
)
from ldm.families.text_encoders import Encoder
from ldm.files.state import State
from ldm.keys.split_checkpoint import COND_STAGE
from ldm.util import Recipe

HEADS = 8  # at every width


def conditioner(state: State, configs: Sequence[Mapping[str, Any]], unconditional: Unconditional | None) -> Recipe:
    return {"target": "ldm.modules.encoders.clip.FrozenCLIPEmbedder", "params": {"config": configs[0]}}


SD1_BASE = Variant(
    "Stable Diffusion 1.x",
    "context 768",
    of_shape(768, 4),
    spec=Spec("stable-diffusion-v1", 512),
    config="configs/models/sd15.yaml",
)
SD1_INPAINTING = Variant(
    "Stable Diffusion 1.x inpainting",
    "context 768, 9 input channels",
    of_shape(768, 9),
    in_channels=9,
    spec=Spec("stable-diffusion-v1-inpainting", 512),
    config="configs/models/sd15-inpainting.yaml",
    inpaints=True,
)
INSTRUCT_PIX2PIX = not_converted("InstructPix2Pix", "context 768, 8 input channels", of_shape(768, 8), 8)

SD1 = Family(
    name="sd1",
    title="Stable Diffusion 1.x",
    variants=(SD1_BASE, SD1_INPAINTING, INSTRUCT_PIX2PIX),
    built_like=lambda unet: projections(unet) == {4} and not has_size_embedding(unet),
    network=unet_network(HEADS, linear=False, widths=WIDTHS),
    latent=Latent(scale=0.18215, sample_size=512, architecture="stable-diffusion-v1/vae"),
    encoders=(Encoder("text_encoder", f"{COND_STAGE}transformer.", Clip(), "<|endoftext|>"),),
    conditioner=conditioner,
    objective=stable_objective,
    remarks={V: "only programs that read the YAML beside the file know that it predicts v"},
    inference=InferenceYaml(
        predictions=(V,),
        encoder={"target": "ldm.modules.encoders.modules.FrozenCLIPEmbedder"},
        network={"num_heads": HEADS, "context_dim": 768},
    ),
    pipeline=PipelineLayout("StableDiffusion", SCHEDULER, no_checker),
    adapters=AdapterNames("sd_v1", ("lora_te",)),
)
