"""Adapters into files and back."""

import pytest
import torch
from support.tiny_networks import FAMILIES, MATCHES, adapt, tiny_networks
from torch import Tensor, nn

from ldm.adapters.adapter_files import Layers, from_file, is_adapter_file, to_file
from ldm.adapters.adapter_names import diffusers_names, kohya_names, names_in_files
from ldm.adapters.arithmetic import change
from ldm.adapters.layer import adapters_in
from ldm.errors import Fault
from ldm.training.groups import named_layers


def layers_of(networks: dict[str, nn.Module]) -> Layers:
    return {name: adapter.tensors() for name, adapter in adapters_in(named_layers(networks))}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", ["LoRA", "DoRA", "LoHa", "LoKr"])
def test_a_file_of_kohyas_layout_is_read_back_to_the_bit(family: str, kind: str) -> None:
    networks, record = tiny_networks(family), FAMILIES[family].adapters
    assert record is not None
    alone = ("unet.*ff.net.2", "text_encoder*v_proj") if family == "SD 3" else MATCHES[family]
    adapt(networks, *alone, target=f"ldm.adapters.{kind}")
    layers = layers_of(networks)
    state = to_file(layers, kohya_names(networks, record), "kohya", None)
    assert is_adapter_file(state)
    found = from_file(state, names_in_files(networks, record), "a.safetensors")
    assert found.keys() == layers.keys()
    assert all(torch.equal(found[layer][end], tensor) for layer, t in layers.items() for end, tensor in t.items())


def spelt_otherwise(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """As peft stores it."""
    return {f"base_model.model.{key}".replace(".lora_", ".lora_").replace("A.weight", "A.default.weight"): value
            for key, value in state.items()}  # fmt: skip


def test_the_diffusers_layout_has_no_alpha_and_its_scale_lies_in_b() -> None:
    networks, record = tiny_networks("SD 1.x"), FAMILIES["SD 1.x"].adapters
    assert record is not None
    adapt(networks, *MATCHES["SD 1.x"])
    state = to_file(layers_of(networks), diffusers_names(networks, record), "diffusers", None)
    assert {key.rpartition(".lora_")[2] for key in state} == {"A.weight", "B.weight"}
    for other in (state, spelt_otherwise(state)):
        found = from_file(other, names_in_files(networks, record), "a.safetensors")
        for name, adapter in adapters_in(named_layers(networks)):
            product = found[name]["lora_up.weight"].flatten(1) @ found[name]["lora_down.weight"].flatten(1)
            torch.testing.assert_close(product.reshape(adapter.shape), adapter.delta())


def test_half_halves_all_but_alpha() -> None:
    networks, record = tiny_networks("SD 1.x"), FAMILIES["SD 1.x"].adapters
    assert record is not None
    adapt(networks, *MATCHES["SD 1.x"])
    state = to_file(layers_of(networks), kohya_names(networks, record), "kohya", torch.float16)
    assert {key.endswith("alpha") for key, value in state.items() if value.dtype == torch.float32} == {True}


@pytest.mark.parametrize("kind", ["DoRA", "LoHa", "LoKr"])
def test_what_diffusers_would_leave_out_is_refused_in_its_layout(kind: str) -> None:
    networks, record = tiny_networks("SD 1.x"), FAMILIES["SD 1.x"].adapters
    assert record is not None
    adapt(networks, "unet.*attn1.to_q", target=f"ldm.adapters.{kind}")
    with pytest.raises(Fault, match="MOD03") as caught:
        to_file(layers_of(networks), diffusers_names(networks, record), "diffusers", None)
    assert "merge=true" in caught.value.fix


def test_an_adapter_of_another_family_is_refused_by_what_does_not_fit() -> None:
    networks = tiny_networks("SDXL")
    assert SDXL_NAMES is not None
    adapt(networks, "text_encoder_2.*self_attn.v_proj")
    state = to_file(layers_of(networks), kohya_names(networks, SDXL_NAMES), "kohya", None)
    record = FAMILIES["SD 1.x"].adapters
    assert record is not None
    with pytest.raises(Fault, match="MOD03") as caught:
        from_file(state, names_in_files(tiny_networks("SD 1.x"), record), "xl.safetensors")
    assert "xl.safetensors does not fit" in caught.value.what and "lora_te2_" in caught.value.why


def test_a_file_without_adapters_is_none() -> None:
    assert not is_adapter_file(["conv_in.weight", "lora_unet_conv_in.alpha"])
    with pytest.raises(Fault, match="MOD03"):
        from_file({}, {}, "empty.safetensors")


SDXL_NAMES = FAMILIES["SDXL"].adapters


def test_layers_that_files_have_as_one_are_blocks_on_a_diagonal_there_and_come_back_as_they_were() -> None:
    networks, record = tiny_networks("SD 3"), FAMILIES["SD 3"].adapters
    assert record is not None
    adapt(networks, *MATCHES["SD 3"])
    layers = layers_of(networks)
    state = to_file(layers, kohya_names(networks, record), "kohya", None)
    key = "lora_unet_joint_blocks_0_x_block_attn_qkv"
    assert state[f"{key}.lora_down.weight"].shape[0] == 2 + 3
    assert not state[f"{key}.lora_up.weight"][16:32].any()  # of the key, which has no adapter
    found = from_file(state, names_in_files(networks, record), "a.safetensors")
    shapes = {name: layer.weight.shape for name, layer in named_layers(networks).items() if name in found}
    for layer, tensors in found.items():
        wanted = change(layers[layer], shapes[layer]) if layer in layers else torch.zeros(shapes[layer])
        torch.testing.assert_close(change(tensors, shapes[layer]), wanted, rtol=1e-5, atol=1e-6)
    assert layers.keys() <= found.keys()


@pytest.mark.parametrize("kind", ["DoRA", "LoHa", "LoKr"])
@pytest.mark.parametrize("match", ["unet.*attn.to_q", "unet.norm_out.linear"])
def test_kinds_that_cannot_stand_where_files_have_other_weights_than_the_network_are_refused(
    kind: str, match: str
) -> None:
    networks, record = tiny_networks("SD 3"), FAMILIES["SD 3"].adapters
    assert record is not None
    adapt(networks, match, target=f"ldm.adapters.{kind}")
    if match.endswith("to_q") or kind == "LoKr":
        with pytest.raises(Fault, match="MOD03"):
            to_file(layers_of(networks), kohya_names(networks, record), "kohya", None)
        return
    layers = layers_of(networks)
    found = from_file(
        to_file(layers, kohya_names(networks, record), "kohya", None), names_in_files(networks, record), ""
    )
    assert all(torch.equal(found[layer][end], tensor) for layer, t in layers.items() for end, tensor in t.items())


def test_what_is_trained_of_t5_is_refused_where_no_program_would_load_it() -> None:
    networks, record = tiny_networks("SD 3"), FAMILIES["SD 3"].adapters
    assert record is not None
    adapt(networks, "text_encoder_3.*SelfAttention.q")
    state = to_file(layers_of(networks), kohya_names(networks, record), "kohya", None)
    assert "lora_te3_encoder_block_0_layer_0_SelfAttention_q.alpha" in state
    with pytest.raises(Fault, match="MOD03") as caught:
        to_file(layers_of(networks), diffusers_names(networks, record), "diffusers", None)
    assert "text_encoder_3" in caught.value.what


def test_two_adapters_of_one_layer_in_a_file_are_refused() -> None:
    networks, record = tiny_networks("SD 1.x"), FAMILIES["SD 1.x"].adapters
    assert record is not None
    adapt(networks, "unet.*attn1.to_q")
    both = [
        to_file(layers_of(networks), names(networks, record), "kohya", None) for names in (kohya_names, diffusers_names)
    ]
    with pytest.raises(Fault, match="MOD03") as caught:
        from_file(both[0] | both[1], names_in_files(networks, record), "a.safetensors")
    assert "two adapters of unet." in caught.value.what
