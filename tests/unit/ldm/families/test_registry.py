"""Families told from names and shapes, and never guessed."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.families import registry
from ldm.families.part_names import named_parts, text_encoders
from ldm.families.record import Variant
from ldm.families.registry import SHIPPED, family_of, known_families, register, variant_of
from ldm.families.sd1 import SD1_BASE, SD1_INPAINTING
from ldm.families.sd2 import SD2_BASE, SD2_INPAINTING
from ldm.families.sdxl import SDXL_BASE, SDXL_INPAINTING, SDXL_REFINER
from ldm.keys.split_checkpoint import split_parts


def unet(context: int, channels: int, width: int = 320, labels: bool = False) -> dict[str, Tensor]:
    shapes = {
        "input_blocks.0.0.weight": (width, channels, 3, 3),
        "input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight": (width, context),
    }
    shapes |= {"label_emb.0.0.weight": (1280, 2816)} if labels else {}
    return {key: torch.empty(shape, device="meta") for key, shape in shapes.items()}


@pytest.mark.parametrize(
    ("state", "variant"),
    [
        (unet(768, 4), SD1_BASE),
        (unet(768, 9), SD1_INPAINTING),
        (unet(1024, 4), SD2_BASE),
        (unet(1024, 9), SD2_INPAINTING),
        (unet(2048, 4, labels=True), SDXL_BASE),
        (unet(2048, 9, labels=True), SDXL_INPAINTING),
        (unet(1280, 4, width=384, labels=True), SDXL_REFINER),
    ],
)
def test_a_public_unet_is_recognised(state: dict[str, Tensor], variant: Variant) -> None:
    assert variant_of(state) is variant


@pytest.mark.parametrize(
    "state",
    [unet(768, 4, width=64), unet(8, 4), unet(768, 12), unet(2048, 4), unet(768, 4, labels=True), {}],
    ids=["narrow", "other context", "other channels", "XL without sizes", "1.x with sizes", "nothing"],
)
def test_what_is_none_of_them_is_not_called_stable_diffusion_1(state: dict[str, Tensor]) -> None:
    assert variant_of(state) is None


def test_names_of_diffusers_do_as_well() -> None:
    state = {
        "conv_in.weight": torch.empty(320, 4, 3, 3),
        "down_blocks.0.attentions.0.transformer_blocks.0.attn2.to_k.weight": torch.empty(320, 1024),
    }
    assert variant_of(state) is SD2_BASE


def test_parts_are_named_as_people_know_them() -> None:
    state = {
        "model.diffusion_model.a": torch.ones(1),
        "first_stage_model.b": torch.ones(1),
        "conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight": torch.ones(5, 768),
        "conditioner.embedders.1.model.token_embedding.weight": torch.ones(5, 1280),
        "model_ema.num_updates": torch.ones(()),
    }
    assert named_parts(split_parts(state)) == ("UNet", "VAE", "CLIP ViT-L", "OpenCLIP ViT-bigG")
    assert "EMA" in named_parts(split_parts(state | {"model_ema.diffusion_modela": torch.ones(1)}))
    assert text_encoders({"model.token_embedding.weight": torch.ones(5, 1024)}) == ("OpenCLIP ViT-H",)


@pytest.mark.parametrize(
    ("key", "part"),
    [
        ("encoder.conv_in.weight", "VAE"),
        ("decoder.conv_in.weight", "VAE"),
        ("input_blocks.0.0.weight", "UNet"),
        ("conv_in.weight", "UNet"),
        ("text_model.final_layer_norm.weight", "text encoder"),
    ],
)
def test_a_part_alone_is_told_by_its_names(key: str, part: str) -> None:
    assert named_parts(split_parts({key: torch.ones(1), "other.weight": torch.ones(1)})) == (part,)


def test_a_stranger_is_no_part() -> None:
    parts = split_parts({"layers.0.weight": torch.ones(1)})
    assert named_parts(parts) == ()
    assert list(parts.rest) == ["layers.0.weight"]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Families that a test registers are known in it alone."""
    monkeypatch.setattr(registry, "_registered", {})


def claims(state: dict[str, Tensor]) -> bool:
    return "mine" in state


MINE = replace(
    SHIPPED[0],
    name="mine",
    title="Mine",
    variants=(),
    built_like=claims,
    network=replace(SHIPPED[0].network, recognises=claims),
)


def test_a_registered_family_is_known_and_recognised_beside_the_shipped_ones(own: None) -> None:
    assert register(MINE) is MINE
    assert known_families() == (*SHIPPED, MINE)
    assert family_of({"mine": torch.ones(1)}, "x") is MINE


def test_a_network_that_two_families_claim_is_refused_by_both_their_names(own: None) -> None:
    register(MINE)
    register(replace(MINE, name="other", title="Other"))
    with pytest.raises(Fault, match="x could be Mine and Other"):
        family_of({"mine": torch.ones(1)}, "x")


def test_a_family_takes_no_shipped_name(own: None) -> None:
    with pytest.raises(Fault, match="the name sd1 of a family is taken"):
        register(replace(MINE, name="sd1"))
