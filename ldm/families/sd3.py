"""Stable Diffusion 3 and 3.5 (Esser et al. 2024, arXiv 2403.03206): text and picture in one transformer, on rectified
flow, with captions encoded by two CLIPs and T5.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from ldm.diffusion.objective import Objective
from ldm.diffusion.rectified_flow import Spacing
from ldm.families.facts import Facts, Unconditional
from ldm.families.flow_marks import FLOW, folder_of_flow, path_of
from ldm.families.record import AdapterNames, Denoiser, Family, Guess, Latent, PipelineLayout, Spec, Variant
from ldm.families.spellings import T5, Clip
from ldm.families.text_encoders import Encoder
from ldm.files.state import State
from ldm.keys.mmdit import POSITIONS, POSITIONS_ON_DISK, count_blocks, mmdit_from_library, mmdit_to_library
from ldm.keys.split_checkpoint import TEXT_ENCODERS
from ldm.util import Recipe

HEAD_WIDTH = 64
SPACING: Spacing = "linspace"  # of FlowMatchEulerDiscreteScheduler, which the published folders name
SHIFT = 3.0  # of the published models' sampling, and of their training at 1024 pixels
LICENSE = "Stability AI Community License (https://stability.ai/license)"

EULER = {"_class_name": "FlowMatchEulerDiscreteScheduler", "num_train_timesteps": 1000, "shift": SHIFT}

PATCHES = ("x_embedder.proj.weight", "pos_embed.proj.weight")
MODULATION = (
    "joint_blocks.0.context_block.adaLN_modulation.1.bias",
    "transformer_blocks.0.norm1_context.linear.bias",
)
NORMED_KEYS = re.compile(r"(x_block\.attn\.ln_k|attn\.norm_k)\.weight$")
DUAL = re.compile(r"(?:joint|transformer)_blocks\.(\d+)\.(?:x_block\.)?attn2\.")


def recognises(network: State) -> bool:
    """Whether these are tensors of an MMDiT with patches, of any size, under the file's or diffusers' names."""
    return "context_embedder.weight" in network and all(any(key in network for key in kind) for kind in KINDS)


KINDS = (PATCHES, MODULATION)


def dual_blocks(network: State) -> list[int]:
    """The blocks in which the picture attends to itself once more (MMDiT-X, of 3.5 Medium)."""
    return sorted({int(match[1]) for key in network if (match := DUAL.match(key))})


def norms_keys(network: State) -> bool:
    """Whether queries and keys are normalised, as in 3.5."""
    return any(NORMED_KEYS.search(key) for key in network)


def like(normed: bool, dual: bool) -> Callable[[State], bool]:
    return lambda network: (norms_keys(network), bool(dual_blocks(network))) == (normed, dual)


def of_size(blocks: int, normed: bool, dual: bool) -> Callable[[State], bool]:
    """Whether a network is an MMDiT of these: blocks, of which each has a head of 64 channels, and kind."""
    built = like(normed, dual)

    def matches(network: State) -> bool:
        return recognises(network) and count_blocks(network) == blocks and is_public(network) and built(network)

    return matches


def patches(network: State) -> Tensor:
    """The weight (width, channels, 2, 2) of the convolution that makes tokens of patches."""
    return next(network[key] for key in PATCHES if key in network)


def is_public(network: State) -> bool:
    """Whether it has as many heads of 64 channels as blocks, which all published ones have."""
    return patches(network).shape[0] == HEAD_WIDTH * count_blocks(network)


def settings(network: State) -> dict[str, Any]:
    """Arguments of `diffusers.SD3Transformer2DModel` for a network under the file's names.

    The size of its table of positions is 192, or 384 with dual attention, where the file holds none.
    """
    width, channels, patch = network[PATCHES[0]].shape[:3]
    normed = next((value for key, value in network.items() if NORMED_KEYS.search(key)), None)
    head = normed.shape[0] if normed is not None else min(HEAD_WIDTH, width)
    dual = dual_blocks(network)
    table = network.get(POSITIONS_ON_DISK)
    return {
        "patch_size": patch,
        "in_channels": channels,
        "out_channels": network["final_layer.linear.weight"].shape[0] // patch**2,
        "num_layers": count_blocks(network),
        "attention_head_dim": head,
        "num_attention_heads": width // head,
        "joint_attention_dim": network["context_embedder.weight"].shape[1],
        "caption_projection_dim": network["context_embedder.weight"].shape[0],
        "pooled_projection_dim": network["y_embedder.mlp.0.weight"].shape[1],
        "pos_embed_max_size": (384 if dual else 192) if table is None else math.isqrt(table.shape[1]),
        "dual_attention_layers": dual,
        "qk_norm": "rms_norm" if normed is not None else None,
    }


def to_library(state: State, keys: State) -> State:
    """The file's tensors under diffusers' names, with the table of positions where a file does without it.

    A row of the table stands for one of 64 places of the pictures that the network was first trained on.
    """
    found = mmdit_to_library(state)
    if POSITIONS in keys and POSITIONS not in found:
        from diffusers.models.embeddings import get_2d_sincos_pos_embed

        _, rows, width = keys[POSITIONS].shape
        table = get_2d_sincos_pos_embed(width, math.isqrt(rows), base_size=64, output_type="pt")
        found[POSITIONS] = table.float().unsqueeze(0)
    return found


def conditioner(state: State, configs: Sequence[Mapping[str, Any]], unconditional: Unconditional | None) -> Recipe:
    """Of the encoders that are there; zeros stand for those of another."""
    left = list(configs)
    places = {encoder.setting: encoder.prefix.removeprefix(TEXT_ENCODERS) for encoder in ENCODERS}
    found = {name: left.pop(0) if any(key.startswith(at) for key in state) else None for name, at in places.items()}
    return {"target": "ldm.modules.encoders.sd3.SD3Conditioner", "params": {**found, "unconditional": unconditional}}


def objective(facts: Facts) -> Objective:
    return Objective(path_of(facts.scheduler, SHIFT, SPACING), "flow")


def scheduler_on_path(facts: Facts) -> dict[str, Any]:
    """diffusers' scheduler for pipelines of this family, which know rectified flow alone: the one of their levels."""
    if facts.scheduler.get("timestep_spacing", SPACING) != SPACING:
        return folder_of_flow({"use_flow_sigmas": True, "flow_shift": SHIFT, **facts.scheduler})
    names = {"num_train_timesteps": "num_train_timesteps", "flow_shift": "shift"}
    return {**EULER, **{name: facts.scheduler[key] for key, name in names.items() if key in facts.scheduler}}


ENCODERS = (
    Encoder(
        "text_encoder",
        f"{TEXT_ENCODERS}clip_l.transformer.",
        Clip("quick_gelu", projects=True, positions=False),
        "<|endoftext|>",
        "clip_l.safetensors",
        "clip",
    ),
    Encoder(
        "text_encoder_2",
        f"{TEXT_ENCODERS}clip_g.transformer.",
        Clip("gelu", projects=True, positions=False),
        "!",
        "clip_g.safetensors",
        "open_clip",
    ),
    Encoder("text_encoder_3", f"{TEXT_ENCODERS}t5xxl.transformer.", T5(), "<pad>", "t5xxl_fp16.safetensors", "t5"),
)

SD3_MEDIUM = Variant(
    "Stable Diffusion 3 Medium",
    "24 joint blocks",
    of_size(24, normed=False, dual=False),
    in_channels=16,
    spec=Spec("stable-diffusion-3-medium", 1024, LICENSE),
    config="configs/models/sd3-medium.yaml",
    like=like(normed=False, dual=False),
)
SD35_MEDIUM = Variant(
    "Stable Diffusion 3.5 Medium",
    "24 joint blocks, 13 of them with two attentions",
    of_size(24, normed=True, dual=True),
    in_channels=16,
    spec=Spec("stable-diffusion-3-5-medium", 1024, LICENSE),
    config="configs/models/sd35-medium.yaml",
    like=like(normed=True, dual=True),
)
SD35_LARGE = Variant(
    "Stable Diffusion 3.5 Large",
    "38 joint blocks, normalised keys",
    of_size(38, normed=True, dual=False),
    in_channels=16,
    spec=Spec("stable-diffusion-3-5-large", 1024, LICENSE),
    config="configs/models/sd35-large.yaml",
    like=like(normed=True, dual=False),
)

SD3 = Family(
    name="sd3",
    title="Stable Diffusion 3",
    variants=(SD3_MEDIUM, SD35_MEDIUM, SD35_LARGE),
    built_like=recognises,
    network=Denoiser(
        recognises=recognises,
        target="ldm.modules.networks.mmdit.MMDiT",
        settings=settings,
        in_channels=lambda network: int(patches(network).shape[1]),
        is_public=is_public,
        library="SD3Transformer2DModel",
        folder="transformer",
        to_library=to_library,
        from_library=mmdit_from_library,
        title="MMDiT",
    ),
    latent=Latent(
        scale=1.5305,
        shift=0.0609,
        sample_size=1024,
        architecture="stable-diffusion-3-medium/vae",
        channels=16,
        alike="Flux",
        upcasts=True,
        remark="Flux's VAE has the same names and shapes, but other latents: let the file's name say whose it is",
    ),
    encoders=ENCODERS,
    conditioner=conditioner,
    objective=objective,
    guess=Guess(FLOW, shift=SHIFT, spacing=SPACING),
    pipeline=PipelineLayout("StableDiffusion3", EULER, lambda unconditional: {}, scheduler_on_path),
    adapters=AdapterNames("sd3", ("lora_te1", "lora_te2", "lora_te3"), compvis=True, network="transformer"),
)
