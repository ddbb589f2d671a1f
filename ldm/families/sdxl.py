"""Stable Diffusion XL (Podell et al. 2023, arXiv 2307.01952): two text encoders side by side, embedded sizes."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ldm.families.edm_marks import is_edm, marks_of
from ldm.families.facts import Facts, Unconditional
from ldm.families.record import AdapterNames, Family, Latent, PipelineLayout, Spec, Variant
from ldm.families.spellings import Clip, OpenClip
from ldm.families.stable_diffusion import (
    SCHEDULER,
    WIDTHS,
    V,
    has_size_embedding,
    not_converted,
    of_shape,
    projections,
    stable_objective,
    unet_network,
)
from ldm.families.text_encoders import Encoder
from ldm.files.state import State
from ldm.keys.split_checkpoint import CONDITIONER, V_MARKER, ZERO_SNR_MARKER
from ldm.util import Recipe

ZEROS = "force_zeros_for_empty_prompt"


def conditioner(state: State, configs: Sequence[Mapping[str, Any]], unconditional: Unconditional | None) -> Recipe:
    params = {"clip": configs[0], "open_clip": configs[-1], "unconditional": unconditional}
    return {"target": "ldm.modules.encoders.sdxl.SDXLConditioner", "params": params}


def marks(facts: Facts) -> State:
    """By which readers of XL files know v-prediction, zero terminal signal and EDM's levels."""
    if is_edm(facts.scheduler):
        return marks_of(facts)
    asked = {V_MARKER: facts.prediction == V, ZERO_SNR_MARKER: facts.zero_terminal_snr}
    return {name: torch.zeros(0) for name, there in asked.items() if there}


def entries(unconditional: Unconditional | None) -> Mapping[str, Any]:
    return {ZEROS: unconditional == "zeros"}


SDXL_BASE = Variant(
    "Stable Diffusion XL",
    "context 2048, two text encoders",
    of_shape(2048, 4, labels=True),
    spec=Spec("stable-diffusion-xl-v1-base", 1024),
    config="configs/models/sdxl.yaml",
)
SDXL_INPAINTING = Variant(
    "Stable Diffusion XL inpainting",
    "context 2048, 9 input channels",
    of_shape(2048, 9, labels=True),
    in_channels=9,
    spec=Spec("stable-diffusion-xl-v1-inpainting", 1024),
    config="configs/models/sdxl-inpainting.yaml",
    inpaints=True,
)
SDXL_REFINER = not_converted(
    "Stable Diffusion XL refiner", "context 1280", of_shape(1280, 4, width=384, labels=True), 4
)

SDXL = Family(
    name="sdxl",
    title="Stable Diffusion XL",
    variants=(SDXL_BASE, SDXL_INPAINTING, SDXL_REFINER),
    built_like=lambda unet: len(projections(unet)) == 1 and has_size_embedding(unet),
    network=unet_network(None, linear=True, widths=WIDTHS[:3]),
    latent=Latent(
        scale=0.13025,
        sample_size=1024,
        architecture="stable-diffusion-xl-v1/vae",
        upcasts=True,
        remark="InvokeAI knows an XL VAE by its name: let it contain sdxl",
    ),
    encoders=(
        Encoder("text_encoder", f"{CONDITIONER}embedders.0.transformer.", Clip(), "<|endoftext|>"),
        Encoder("text_encoder_2", f"{CONDITIONER}embedders.1.model.", OpenClip(), "!"),
    ),
    conditioner=conditioner,
    objective=stable_objective,
    unconditional="zeros",
    marks=marks,
    pipeline=PipelineLayout("StableDiffusionXL", SCHEDULER, entries),
    adapters=AdapterNames("sdxl_base_v1-0", ("lora_te1", "lora_te2"), compvis=True),
)
