"""Adapters of a model on their way into a file."""

import dataclasses
from pathlib import Path

import pytest
import torch
from support.tiny_networks import FAMILIES, adapt, tiny_networks

from ldm.adapters.adapter_set import AdapterSet
from ldm.adapters.layer import adapters_in
from ldm.errors import Fault
from ldm.files.read import read_content
from ldm.training.groups import named_layers


@pytest.fixture(scope="module")
def adapters() -> AdapterSet:
    networks = tiny_networks("SD 1.x")
    adapt(networks, "unet.*attn1.to_q", "text_encoder*v_proj")
    layers = {name: adapter.tensors() for name, adapter in adapters_in(named_layers(networks))}
    network = networks["unet"].to_disk(dict(networks["unet"].state_dict()))  # type: ignore[operator]
    return AdapterSet(layers, networks, FAMILIES["SD 1.x"], network)


def test_a_part_is_chosen_by_names_and_a_glob_without_effect_is_refused(adapters: AdapterSet) -> None:
    assert {name.partition(".")[0] for name in adapters.among("text_*").layers} == {"text_encoder"}
    assert adapters.among() is adapters
    with pytest.raises(Fault, match="CLI05") as caught:
        adapters.among("unet.*", "vae.*")
    assert "vae.*" in caught.value.what and "text_encoder" in caught.value.why


def test_what_it_is_told_is_in_the_file_and_broken_numbers_are_refused(adapters: AdapterSet, tmp_path: Path) -> None:
    out = tmp_path / "a.safetensors"
    adapters.write(out, "kohya", None, {"lun.mine": "1"})
    content = read_content(out)
    assert content.facts["lun.mine"] == "1" and content.facts["ss_base_model_version"] == "sd_v1"
    name = next(iter(adapters.layers))
    broken = {**adapters.layers, name: {**adapters.layers[name], "alpha": torch.tensor(float("nan"))}}
    with pytest.raises(Fault, match="MOD02"):
        dataclasses.replace(adapters, layers=broken).write(tmp_path / "b.safetensors", "kohya", None, {})
    assert not (tmp_path / "b.safetensors").exists()
