"""Folders as diffusers and transformers write them."""

import json
from pathlib import Path

import pytest
import torch

from ldm.errors import Fault
from ldm.files.weights_location import find_source
from ldm.files.write import write_safetensors

ONE = {"a": torch.ones(1)}


def test_a_pipelines_folder_gives_the_component(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "vae" / "diffusion_pytorch_model.safetensors", ONE)
    (tmp_path / "vae" / "config.json").write_text(json.dumps({"_class_name": "AutoencoderKL", "latent_channels": 4}))
    source = find_source(tmp_path, "vae")
    assert list(source.read()) == ["a"]
    assert source.config == {"latent_channels": 4}


@pytest.mark.parametrize("name", ["diffusion_pytorch_model.fp16.safetensors", "model.safetensors"])
def test_a_components_folder_gives_its_only_variant(tmp_path: Path, name: str) -> None:
    write_safetensors(tmp_path / name, ONE)
    assert list(find_source(str(tmp_path), "unet").read()) == ["a"]


def test_pickled_folders_are_read_safely(tmp_path: Path) -> None:
    torch.save(ONE, tmp_path / "diffusion_pytorch_model.bin")
    assert list(find_source(tmp_path, "unet").read()) == ["a"]


def shards(folder: Path) -> None:
    names = {"a": "diffusion_pytorch_model-1.safetensors", "b": "diffusion_pytorch_model-2.safetensors"}
    for key, name in names.items():
        write_safetensors(folder / name, {key: torch.ones(1)})
    index = folder / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))


def test_shards_are_joined(tmp_path: Path) -> None:
    shards(tmp_path)
    assert sorted(find_source(tmp_path, "unet").read()) == ["a", "b"]


def test_a_missing_shard_is_a_fault_that_names_it(tmp_path: Path) -> None:
    shards(tmp_path)
    (tmp_path / "diffusion_pytorch_model-2.safetensors").unlink()
    with pytest.raises(Fault, match="diffusion_pytorch_model-2") as caught:
        find_source(tmp_path, "unet").read()
    assert caught.value.id == "MOD01"


def test_a_folder_without_weights_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    with pytest.raises(Fault) as caught:
        find_source(tmp_path, "unet")
    assert caught.value.id == "MOD01"
    assert "pictures/" in caught.value.fix
