"""Single files to folders and back, with all tensors of each family."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.small import FAMILIES, Kind, model, same, single_file

from ldm.convert.diffusers_folder import (
    CARRIED,
    read_metadata,
    read_pipeline,
    scheduler_config,
    unplaced,
    write_pipeline,
)
from ldm.convert.model import Model
from ldm.errors import Fault
from ldm.families.facts import Facts
from ldm.keys.split_checkpoint import FIRST_STAGE, UNET

COUNTS = {"sd1": 1131, "sd2": 1228, "sdxl": 2515}


@pytest.mark.parametrize(("family", "lost"), [("sd1", 1), ("sd2", 14), ("sdxl", 2)])
def test_a_single_file_comes_back_from_a_folder_bit_for_bit(family: Kind, lost: int, tmp_path: Path) -> None:
    before = single_file(family)
    assert len(before) == COUNTS[family]
    source = Model(before, FAMILIES[family], "x", Facts("epsilon", exact=True))
    assert len(unplaced(source)) == lost
    write_pipeline(source, tmp_path / "folder", None, {"modelspec.title": "t"})
    after = read_pipeline(tmp_path / "folder")
    assert same(after.completed().state, before)
    assert after.facts.metadata == {"modelspec.title": "t"}
    assert after.facts.prediction == "epsilon"


def test_a_folder_that_came_from_elsewhere_makes_a_complete_file_all_the_same(tmp_path: Path) -> None:
    source = model("sd2", exact=True)
    write_pipeline(source, tmp_path / "folder", None)
    (tmp_path / "folder" / CARRIED).unlink()
    state = read_pipeline(tmp_path / "folder").completed().state
    assert state.keys() == source.state.keys()
    untouched = [key for key in state if key not in unplaced(source)]
    assert all(torch.equal(state[key], source.state[key]) for key in untouched)


def test_other_tensors_of_a_training_checkpoint_come_along(tmp_path: Path) -> None:
    extra = {"betas": torch.rand(5, dtype=torch.float64), "v_pred": torch.zeros(0)}
    source = Model(single_file("sd1") | extra, FAMILIES["sd1"], "x", Facts("epsilon", exact=True))
    write_pipeline(source, tmp_path / "folder", torch.float16)
    back = read_pipeline(tmp_path / "folder").state
    assert torch.equal(back["betas"], extra["betas"])
    assert back["v_pred"].shape == (0,)
    assert back[UNET + "input_blocks.0.0.weight"].dtype == torch.float16


def test_text_encoders_have_the_names_that_every_version_of_transformers_reads(tmp_path: Path) -> None:
    """Today's save_pretrained leaves `text_model.` out; older versions then keep random weights without a word."""
    write_pipeline(model("sdxl"), tmp_path / "folder", None)
    first = load_file(tmp_path / "folder" / "text_encoder" / "model.safetensors")
    second = load_file(tmp_path / "folder" / "text_encoder_2" / "model.safetensors")
    assert len(first) == 196
    assert all(key.startswith("text_model.") for key in first)
    assert len(second) == 517
    assert {key for key in second if not key.startswith("text_model.")} == {"text_projection.weight"}


def test_a_text_encoder_without_text_model_in_its_names_is_read_as_well(tmp_path: Path) -> None:
    source = model("sd1")
    write_pipeline(source, tmp_path / "folder", None)
    file = tmp_path / "folder" / "text_encoder" / "model.safetensors"
    save_file({key.removeprefix("text_model."): value for key, value in load_file(file).items()}, file)
    assert same(read_pipeline(tmp_path / "folder").completed().state, source.state)


def test_a_part_alone_becomes_the_folder_of_that_network(tmp_path: Path) -> None:
    source = model("sd1")
    write_pipeline(source.part(UNET), tmp_path / "unet", None)
    write_pipeline(replace(source.part(FIRST_STAGE), family=None), tmp_path / "vae", None)
    assert json.loads((tmp_path / "unet" / "config.json").read_text())["_class_name"] == "UNet2DConditionModel"
    assert json.loads((tmp_path / "vae" / "config.json").read_text())["_class_name"] == "AutoencoderKL"
    assert same(read_pipeline(tmp_path / "unet").unet, source.unet)
    back = read_pipeline(tmp_path / "vae")
    assert same(back.first_stage, source.first_stage)
    assert back.family is None


def test_a_network_with_a_tensor_missing_is_refused_and_the_tensor_named(tmp_path: Path) -> None:
    state = single_file("sd1")
    del state[UNET + "out.0.bias"]
    with pytest.raises(Fault, match="the UNet in x is not whole") as caught:
        write_pipeline(Model(state, FAMILIES["sd1"], "x"), tmp_path / "folder", None)
    assert caught.value.id == "MOD03"
    assert "first missing: conv_norm_out.bias" in caught.value.why


def test_the_scheduler_says_what_was_predicted_and_where_the_noise_ends() -> None:
    plain = scheduler_config(Facts("epsilon"))
    assert (plain["prediction_type"], plain["timestep_spacing"], plain["beta_end"]) == ("epsilon", "leading", 0.012)
    zero = scheduler_config(Facts("v_prediction", {"rescale_betas_zero_snr": True}))
    assert (zero["prediction_type"], zero["timestep_spacing"]) == ("v_prediction", "trailing")


def test_what_the_scheduler_of_a_folder_says_is_kept(tmp_path: Path) -> None:
    facts = {"prediction": "v_prediction", "scheduler": {"rescale_betas_zero_snr": True, "beta_end": 0.02}}
    write_pipeline(model("sd1", **facts), tmp_path / "folder", None)
    found = read_pipeline(tmp_path / "folder").facts
    assert found.prediction == "v_prediction"
    assert found.scheduler == facts["scheduler"]


def test_metadata_of_a_file_without_any_is_empty(tmp_path: Path) -> None:
    save_file({"a": torch.ones(1)}, tmp_path / "a")
    assert read_metadata(tmp_path / "a") == {}


def test_the_index_says_that_there_is_no_text_encoder(tmp_path: Path) -> None:
    source = model("sd1")
    kept = {key: value for key, value in source.state.items() if key.startswith((UNET, FIRST_STAGE))}
    write_pipeline(replace(source, state=kept), tmp_path / "folder", None)
    index = json.loads((tmp_path / "folder" / "model_index.json").read_text())
    assert index["vae"] == ["diffusers", "AutoencoderKL"]
    assert index["text_encoder"] == index["tokenizer"] == [None, None]
