"""What files call layers, in every spelling."""

from typing import Any

import pytest
from support.tiny_networks import FAMILIES, tiny_networks

from ldm.adapters.adapter_names import diffusers_names, kohya_names, names_in_files
from ldm.adapters.file_places import FilePlace
from ldm.modules.meta_init import meta_init
from ldm.modules.networks.unet import UNet

FULL: dict[str, dict[str, Any]] = {
    "SD 1.x": {"cross_attention_dim": 768},
    "SDXL": {
        "block_out_channels": [320, 640, 1280],
        "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
        "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
        "transformer_layers_per_block": [1, 2, 10],
        "attention_head_dim": [5, 10, 20],
        "cross_attention_dim": 2048,
        "use_linear_projection": True,
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 256,
        "projection_class_embeddings_input_dim": 2816,
    },
}
COMPVIS = ("input_blocks_", "middle_block_", "output_blocks_", "time_embed_", "label_emb_0_", "out_2")


def keys_of(family: str) -> dict[str, str]:
    record = FAMILIES[family].adapters
    assert record is not None
    return {name: place.key for name, place in kohya_names(tiny_networks(family), record).items()}


@pytest.mark.parametrize(("family", "count"), [("SD 1.x", 282), ("SDXL", 794)])
def test_each_layer_of_the_published_networks_has_a_key_of_its_own(family: str, count: int) -> None:
    with meta_init():
        networks = {"unet": UNet(from_scratch=True, **FULL[family])}
    record = FAMILIES[family].adapters
    assert record is not None
    keys = {place.key for place in kohya_names(networks, record).values()}
    assert len(keys) == count
    assert all(key.startswith("lora_unet_") for key in keys)
    begins = {key.removeprefix("lora_unet_").startswith(COMPVIS) for key in keys}
    assert begins == {record.compvis}


def test_kohyas_keys_of_text_encoders_are_below_text_model_and_xl_has_two() -> None:
    one = keys_of("SD 1.x")
    assert one["text_encoder.encoder.layers.0.mlp.fc1"] == "lora_te_text_model_encoder_layers_0_mlp_fc1"
    two = keys_of("SDXL")
    q = "encoder.layers.0.self_attn.q_proj"
    assert two[f"text_encoder.{q}"] == "lora_te1_text_model_encoder_layers_0_self_attn_q_proj"
    second = {key for name, key in two.items() if name.startswith("text_encoder_2.")}
    assert "lora_te2_text_model_encoder_layers_0_self_attn_q_proj" in second
    assert "lora_te2_text_projection" in second


@pytest.mark.parametrize("family", FAMILIES)
def test_every_spelling_of_a_layer_leads_to_it(family: str) -> None:
    networks, record = tiny_networks(family), FAMILIES[family].adapters
    assert record is not None
    known = names_in_files(networks, record)
    for names in (kohya_names(networks, record), diffusers_names(networks, record)):
        assert all(known[place.key][name] == place for name, place in names.items())
    name = "unet.down_blocks.0.resnets.0.conv1"
    spelt = ("lora_unet_down_blocks_0_resnets_0_conv1", "lora_unet_input_blocks_1_0_in_layers_2")
    if family != "SD 3":
        assert [list(known[key]) for key in (*spelt, "diffusion_model.input_blocks.1.0.in_layers.2")] == [[name]] * 3


def test_stable_diffusion_3_has_single_files_names_with_three_layers_at_one_and_halves_in_the_other_order() -> None:
    networks, record = tiny_networks("SD 3"), FAMILIES["SD 3"].adapters
    assert record is not None
    names, block = kohya_names(networks, record), "unet.transformer_blocks.0"
    joined = [names[f"{block}.attn.{word}"] for word in ("to_q", "to_k", "to_v")]
    key = "lora_unet_joint_blocks_0_x_block_attn_qkv"
    assert joined == [FilePlace(key, part, 3) for part in range(3)]
    assert names["unet.norm_out.linear"] == FilePlace("lora_unet_final_layer_adaLN_modulation_1", swapped=True)
    assert [names[f"text_encoder{n}.encoder.block.0.layer.0.SelfAttention.q"].key for n in ("_3",)] == [
        "lora_te3_encoder_block_0_layer_0_SelfAttention_q"
    ]
    assert diffusers_names(networks, record)[f"{block}.attn.to_q"].key == "transformer.transformer_blocks.0.attn.to_q"
    onetrainers = "lora_transformer_transformer_blocks_0_attn_to_q"
    assert list(names_in_files(networks, record)[onetrainers]) == [f"{block}.attn.to_q"]
