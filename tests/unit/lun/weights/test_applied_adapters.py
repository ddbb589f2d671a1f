"""Files of adapters on top of a model that is drawn from."""

from pathlib import Path

import pytest
import torch
from support.models import tiny_model
from support.tiny_networks import adapt

from ldm.adapters.adapter_files import to_file
from ldm.adapters.adapter_names import diffusers_names, kohya_names
from ldm.adapters.layer import adapters_in
from ldm.diffusion.conditioning import Conditioning
from ldm.errors import Fault
from ldm.families.sd1 import SD1
from ldm.files.write import write_safetensors
from ldm.models.diffusion.ddpm import LatentDiffusion
from ldm.training.groups import named_layers
from lun.weights.applied_adapters import AppliedAdapter, apply_adapters


def built() -> LatentDiffusion:
    model = tiny_model()
    model.configure_model()
    model.eval()
    return model


def computed(model: LatentDiffusion) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    x, context = torch.randn(2, 4, 4, 4, generator=generator), torch.randn(2, 4, 8, generator=generator)
    assert model.model is not None
    with torch.no_grad():
        return model.model(x, torch.tensor([3, 600]), Conditioning(context))


def files(folder: Path, kind: str) -> tuple[torch.Tensor, Path, Path]:
    """What a model with adapters computes, and files of these adapters: of the attention, and of the convolutions."""
    model = built()
    networks = model.trainable_networks()
    adapt(networks, "unet.*attn1.*", "unet.*conv1", target=f"ldm.adapters.{kind}")
    layers = {name: adapter.tensors() for name, adapter in adapters_in(named_layers(networks))}
    assert SD1.adapters is not None
    paths = folder / "attention.safetensors", folder / "convolutions.safetensors"
    for path, word in zip(paths, ("attn1", "conv1"), strict=True):
        own = {name: tensors for name, tensors in layers.items() if word in name}
        names = kohya_names(networks, SD1.adapters)
        if kind == "LoRA" and word == "attn1":
            write_safetensors(path, to_file(own, diffusers_names(networks, SD1.adapters), "diffusers", None))
        else:
            write_safetensors(path, to_file(own, names, "kohya", None))
    return computed(model), *paths


@pytest.mark.parametrize("kind", ["LoRA", "DoRA"])
def test_files_in_any_layout_at_full_strength_compute_what_training_did_and_at_none_nothing(
    tmp_path: Path, kind: str
) -> None:
    expected, *paths = files(tmp_path, kind)
    model = built()
    before = computed(model)
    apply_adapters(model.trainable_networks(), [AppliedAdapter.parse(f"{path}:0") for path in paths])
    torch.testing.assert_close(computed(model), before, rtol=0, atol=1e-6)
    apply_adapters(model.trainable_networks(), [AppliedAdapter.parse(str(path)) for path in paths])
    torch.testing.assert_close(computed(model), expected, rtol=0, atol=1e-5)
    assert (expected - before).abs().max() > 1e-3


def test_a_strength_is_what_follows_the_last_colon() -> None:
    assert AppliedAdapter.parse("a:b.safetensors:-0.5") == AppliedAdapter(Path("a:b.safetensors"), -0.5)
    assert str(AppliedAdapter.parse("folder/a.safetensors")) == "a.safetensors:1"
    for strength in ("much", "nan", ""):
        with pytest.raises(Fault, match="CLI03"):
            AppliedAdapter.parse(f"a.safetensors:{strength}")


def test_what_is_no_adapter_and_one_of_other_sizes_are_refused_by_name(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "whole.safetensors", {"conv_in.weight": torch.ones(1)})
    odd = {"lora_unet_conv_in.lora_down.weight": torch.ones(2, 3, 3, 3)}
    write_safetensors(tmp_path / "odd.safetensors", odd | {"lora_unet_conv_in.lora_up.weight": torch.ones(8, 2, 1, 1)})
    model = built()
    for name, said in (("whole", "is no file of adapters"), ("odd", "other sizes")):
        with pytest.raises(Fault, match="MOD03") as caught:
            apply_adapters(model.trainable_networks(), [AppliedAdapter(tmp_path / f"{name}.safetensors")])
        assert said in caught.value.what and name in caught.value.what
