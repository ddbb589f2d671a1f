"""Stable Diffusion 2.x: OpenCLIP ViT-H without its last layer, heads of 64 channels, linear projections."""

from collections.abc import Mapping, Sequence
from typing import Any

from ldm.diffusion.prediction_names import PredictionType
from ldm.families.facts import Unconditional
from ldm.families.record import AdapterNames, Family, Guess, InferenceYaml, Latent, PipelineLayout, Spec, Variant
from ldm.families.spellings import OpenClip
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
from ldm.keys.split_checkpoint import COND_STAGE, UNET
from ldm.util import Recipe

TELLTALE = UNET + "output_blocks.11.1.transformer_blocks.0.norm1.bias"
DEVIATION_OF_V = 0.09  # of these numbers in the published models: above it v, below it eps


def conditioner(state: State, configs: Sequence[Mapping[str, Any]], unconditional: Unconditional | None) -> Recipe:
    return {"target": "ldm.modules.encoders.openclip.FrozenOpenCLIPEmbedder", "params": {"config": configs[0]}}


def measured(state: State) -> tuple[PredictionType, str] | None:
    """The prediction by the standard deviation of one tensor, in which the published models differ."""
    if TELLTALE not in state:
        return None
    deviation = float(state[TELLTALE].float().std())
    return V if deviation > DEVIATION_OF_V else "epsilon", f"the spread of one of its tensors, {deviation:.3f}"


SD2_BASE = Variant(
    "Stable Diffusion 2.x",
    "context 1024, linear projections",
    of_shape(1024, 4),
    spec=Spec("stable-diffusion-v2-512", 512),
    specs={V: Spec("stable-diffusion-v2-768-v", 768)},
    config="configs/models/sd21-v.yaml (768 pixels, v) or configs/models/sd21-base.yaml (512 pixels, eps)",
)
SD2_INPAINTING = Variant(
    "Stable Diffusion 2.x inpainting",
    "context 1024, 9 input channels",
    of_shape(1024, 9),
    in_channels=9,
    spec=Spec("stable-diffusion-v2-inpainting", 512),
    inpaints=True,
)
DEPTH = not_converted("Stable Diffusion 2.x depth", "context 1024, 5 input channels", of_shape(1024, 5), 5)
UPSCALER = not_converted("Stable Diffusion 2.x upscaler", "context 1024, 7 input channels", of_shape(1024, 7), 7)

SD2 = Family(
    name="sd2",
    title="Stable Diffusion 2.x",
    variants=(SD2_BASE, SD2_INPAINTING, DEPTH, UPSCALER),
    built_like=lambda unet: projections(unet) == {2} and not has_size_embedding(unet),
    network=unet_network(None, linear=True, widths=WIDTHS),
    latent=Latent(scale=0.18215, sample_size=768, architecture="stable-diffusion-v1/vae"),
    encoders=(Encoder("text_encoder", f"{COND_STAGE}model.", OpenClip(shortened=True), "!"),),
    conditioner=conditioner,
    objective=stable_objective,
    guess=Guess(certain=False, measured=measured),
    remarks={"epsilon": "InvokeAI takes a 2.x file for v-prediction: set its prediction type to epsilon there"},
    inference=InferenceYaml(
        predictions=None,
        encoder={
            "target": "ldm.modules.encoders.modules.FrozenOpenCLIPEmbedder",
            "params": {"freeze": True, "layer": "penultimate"},
        },
        network={"num_head_channels": 64, "use_linear_in_transformer": True, "context_dim": 1024},
    ),
    pipeline=PipelineLayout("StableDiffusion", SCHEDULER, no_checker),
    adapters=AdapterNames("sd_v2", ("lora_te",), version_of_v="sd_v2_v", is_v2=True),
)
