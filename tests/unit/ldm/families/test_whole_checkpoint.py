"""What a checkpoint is, told without reading its weights."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ldm.errors import Fault
from ldm.families.sd1 import SD1_BASE
from ldm.families.whole_checkpoint import open_checkpoint
from ldm.files.write import write_safetensors

UNET = {
    "input_blocks.0.0.weight": torch.zeros(320, 4, 1, 1),
    "input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight": torch.zeros(8, 768),
}
WHOLE = {f"model.diffusion_model.{key}": value for key, value in UNET.items()} | {"first_stage_model.a": torch.ones(3)}


def folder(root: Path, prediction: str = "v_prediction", second: bool = False) -> Path:
    parts: dict[str, dict[str, Tensor]] = {
        "unet/diffusion_pytorch_model": {"conv_in.weight": torch.ones(2, 4, 3, 3)},
        "vae/diffusion_pytorch_model": {"encoder.conv_in.weight": torch.ones(2)},
        "text_encoder/model": {"text_model.embeddings.token_embedding.weight": torch.ones(5, 768)},
    }
    if second:
        parts["text_encoder_2/model"] = {"text_model.embeddings.token_embedding.weight": torch.ones(5, 1280)}
    for name, state in parts.items():
        write_safetensors(root / f"{name}.safetensors", state)
    (root / "scheduler").mkdir()
    (root / "scheduler/scheduler_config.json").write_text(json.dumps({"prediction_type": prediction}))
    return root


def test_a_published_file_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "sd.safetensors"
    write_safetensors(path, WHOLE)
    checkpoint = open_checkpoint(path)
    found = checkpoint.describe()
    assert (found.variant, found.layout, found.prediction) == (SD1_BASE, "ldm", None)
    size = path.stat().st_size
    assert checkpoint.sha256() == hashlib.sha256(path.read_bytes()).hexdigest()
    expected = f"{path} ({size / 1000:.1f} kB, sha256 0123456789, Stable Diffusion 1.x, ldm layout: UNet, VAE)"
    assert found.line("0123456789abcdef") == expected


@pytest.mark.parametrize("kind", ["zip", "legacy", "safetensors"])
def test_the_outline_is_the_same_whatever_the_format(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "sd"
    if kind == "safetensors":
        write_safetensors(path, WHOLE)
    else:
        torch.save({"state_dict": WHOLE}, path, _use_new_zipfile_serialization=kind == "zip")
    outline = open_checkpoint(path).outline
    assert {key: tuple(value.shape) for key, value in outline.unet.items()} == {
        key: tuple(value.shape) for key, value in UNET.items()
    }
    assert all(value.is_meta for value in outline.unet.values())


def test_a_pipelines_folder_has_its_parts_and_its_prediction(tmp_path: Path) -> None:
    found = open_checkpoint(folder(tmp_path)).describe()
    assert (found.layout, found.prediction, found.parts) == ("diffusers", "v", ("UNet", "VAE", "CLIP ViT-L"))


def test_a_folder_of_a_flow_is_known_by_the_class_of_its_scheduler(tmp_path: Path) -> None:
    file = folder(tmp_path) / "scheduler/scheduler_config.json"
    file.write_text(json.dumps({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0}))
    assert open_checkpoint(tmp_path).describe().prediction == "flow"


def test_two_encoders_of_a_folder_have_the_names_of_a_single_file(tmp_path: Path) -> None:
    parts = open_checkpoint(folder(tmp_path, second=True)).read()
    below = "text_model.embeddings.token_embedding.weight"
    assert {key: value.shape[1] for key, value in parts.cond_stage.items()} == {
        f"embedders.0.transformer.{below}": 768,
        "embedders.1.model.token_embedding.weight": 1280,
    }


@pytest.mark.parametrize(
    ("state", "metadata", "prediction"),
    [
        ({"v_pred": torch.zeros(0)}, {}, "v"),
        ({}, {"modelspec.prediction_type": "v"}, "v"),
        ({}, {"modelspec.predict_key": "epsilon"}, "eps"),
        ({}, {"modelspec.prediction_type": "something new"}, None),
    ],
)
def test_marks_of_the_prediction_are_read(
    tmp_path: Path, state: dict[str, Tensor], metadata: dict[str, str], prediction: str | None
) -> None:
    write_safetensors(tmp_path / "x", WHOLE | state, metadata)
    assert open_checkpoint(tmp_path / "x").describe().prediction == prediction
    assert not open_checkpoint(tmp_path / "x").describe().against


def test_a_header_is_believed_before_a_mark_that_disagrees_which_is_told(tmp_path: Path) -> None:
    write_safetensors(tmp_path / "x", WHOLE | {"v_pred": torch.zeros(0)}, {"modelspec.prediction_type": "epsilon"})
    found = open_checkpoint(tmp_path / "x").describe()
    assert (found.prediction, found.against) == ("eps", "its tensor v_pred says v")


@pytest.mark.parametrize(
    ("facts", "origin"),
    [
        ({"lun": {"position": {"step": 7}}, "optimizer_states": []}, "a run of this program, step 7"),
        ({"pytorch-lightning_version": "1.7.6", "global_step": 9}, "a training checkpoint, step 9"),
        ({"global_step": 470000}, ""),
    ],
)
def test_training_checkpoints_are_told_from_published_ones(tmp_path: Path, facts: dict[str, Any], origin: str) -> None:
    torch.save({"state_dict": WHOLE, **facts}, tmp_path / "x.ckpt")
    assert open_checkpoint(tmp_path / "x.ckpt").describe().origin == origin


@pytest.mark.parametrize("name", ["models/absent.ckpt", "absent", "a/b/c"])
def test_nothing_at_a_path_is_a_fault_at_once(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Fault) as caught:
        open_checkpoint(name)
    assert caught.value.id == "MOD01"
    assert "no such file" in caught.value.why


def test_a_hub_id_offline_is_a_fault_at_once_that_names_both_ways_out() -> None:
    with pytest.raises(Fault) as caught:
        open_checkpoint("no-such-organisation/no-such-model@main")
    assert caught.value.id == "MOD01"
    assert "HF_HUB_OFFLINE" in caught.value.why
    assert "hf download no-such-organisation/no-such-model --local-dir" in caught.value.fix
    assert "model.params.ckpt_path=FILE" in caught.value.fix
