"""The tensors of files, and what they make of a layer's weight."""

import pytest
import torch
from support.adapted import KINDS, LAYERS, adapted, learned
from support.adapter_reader import read_by_others

from ldm.adapters.arithmetic import change, patched, require_known
from ldm.errors import Fault


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_files_tensors_make_of_a_weight_what_the_adapter_does_and_other_programs_at_any_strength(
    kind: str, layer: str
) -> None:
    owner = LAYERS[layer]()
    adapter = adapted(kind, owner)
    learned(adapter)
    tensors = {name: tensor.detach() for name, tensor in adapter.tensors().items()}
    torch.testing.assert_close(patched(owner.weight, tensors), adapter.merged(owner.weight), rtol=1e-6, atol=1e-6)
    for strength in (0.0, 0.4, -1.0):
        expected = read_by_others(owner.weight, tensors, strength)
        torch.testing.assert_close(patched(owner.weight, tensors, strength), expected, rtol=1e-6, atol=1e-6)


def test_without_an_alpha_the_scale_is_one() -> None:
    adapter = adapted("LoRA", LAYERS["linear"]())
    learned(adapter)
    tensors = {name: tensor for name, tensor in adapter.tensors().items() if name != "alpha"}
    torch.testing.assert_close(change(tensors, torch.Size(adapter.shape)), adapter.delta() * 3 / 2)


@pytest.mark.parametrize(
    ("names", "said"),
    [(["lora_down.weight"], "is not known"), (["lokr_w1", "lokr_t2", "lokr_w2_a"], "is not known")],
)
def test_an_adapter_of_another_kind_is_refused_by_the_name_of_its_layer(names: list[str], said: str) -> None:
    with pytest.raises(Fault, match="MOD03") as caught:
        require_known(dict.fromkeys(names, torch.ones(1)), "unet.conv_in in a.safetensors")
    assert said in caught.value.what and "unet.conv_in" in caught.value.what


def test_a_dora_whose_lengths_are_those_of_outputs_is_refused_since_programs_differ_in_it() -> None:
    tensors = adapted("DoRA", LAYERS["linear"]()).tensors() | {"dora_scale": torch.ones(16, 1)}
    with pytest.raises(Fault, match="MOD03") as caught:
        require_known(tensors, "unet.conv_in")
    assert "other axis" in caught.value.what
