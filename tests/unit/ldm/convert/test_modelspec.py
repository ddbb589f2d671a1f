"""What a single file says about itself."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from support.small import FAMILIES, Kind, model, single_file

from ldm.convert.diffusers_folder import read_metadata
from ldm.convert.inference_yaml import inference_yaml
from ldm.convert.model import Model
from ldm.convert.modelspec import architecture, metadata_of
from ldm.families.facts import Facts
from ldm.files.write import HASH, write_safetensors
from ldm.keys.split_checkpoint import FIRST_STAGE


@pytest.mark.parametrize(
    ("family", "channels", "prediction", "name", "side"),
    [
        ("sd1", 4, "epsilon", "stable-diffusion-v1", 512),
        ("sd1", 9, "epsilon", "stable-diffusion-v1-inpainting", 512),
        ("sd2", 4, "epsilon", "stable-diffusion-v2-512", 512),
        ("sd2", 4, "v_prediction", "stable-diffusion-v2-768-v", 768),
        ("sd2", 9, "epsilon", "stable-diffusion-v2-inpainting", 512),
        ("sdxl", 4, "v_prediction", "stable-diffusion-xl-v1-base", 1024),
    ],
)
def test_architecture_and_resolution_follow_from_the_model(
    family: Kind, channels: int, prediction: str, name: str, side: int
) -> None:
    told = metadata_of(Model(single_file(family, channels), FAMILIES[family], "x", Facts(prediction)), "t", "d")  # type: ignore[arg-type]
    assert told["modelspec.architecture"] == name
    assert told["modelspec.resolution"] == f"{side}x{side}"
    assert told["modelspec.predict_key"] == ("v" if prediction == "v_prediction" else "epsilon")


def test_an_autoencoder_has_neither_resolution_nor_prediction() -> None:
    source = replace(model("sd1").part(FIRST_STAGE), family=None)
    told = metadata_of(source, "t", "d")
    assert architecture(source) == "stable-diffusion-v1/vae"
    assert not {"modelspec.resolution", "modelspec.prediction_type"} & told.keys()


def test_what_a_file_said_about_itself_stays_and_what_follows_from_it_is_made_anew() -> None:
    said = {"modelspec.author": "me", "modelspec.title": "mine", "modelspec.architecture": "wrong", HASH: "old"}
    told = metadata_of(model("sd1", metadata=said), "other", "2026-11-21T00:00:00Z")
    assert (told["modelspec.author"], told["modelspec.title"]) == ("me", "mine")
    assert told["modelspec.architecture"] == "stable-diffusion-v1"
    assert told["modelspec.date"] == "2026-11-21T00:00:00Z"


def test_the_hash_is_that_of_everything_after_the_header(tmp_path: Path) -> None:
    source = model("sd1").part(FIRST_STAGE)
    write_safetensors(tmp_path / "x", source.state, {HASH: "anything", "a": "é"})
    content = (tmp_path / "x").read_bytes()
    data = content[8 + int.from_bytes(content[:8], "little") :]
    assert read_metadata(tmp_path / "x") == {HASH: "0x" + hashlib.sha256(data).hexdigest(), "a": "é"}


def test_the_yaml_is_for_models_that_would_have_to_be_guessed() -> None:
    assert not FAMILIES["sd1"].needs_yaml(Facts("epsilon"))
    assert FAMILIES["sd1"].needs_yaml(Facts("v_prediction"))
    assert FAMILIES["sd2"].needs_yaml(Facts("epsilon"))
    assert not FAMILIES["sdxl"].needs_yaml(Facts("v_prediction"))


def test_the_yaml_is_a_config_in_compvis_form() -> None:
    read = yaml.safe_load(inference_yaml(model("sd2", prediction="v_prediction")))["model"]
    assert read["target"] == "ldm.models.diffusion.ddpm.LatentDiffusion"
    assert read["params"]["parameterization"] == "v"
    assert read["params"]["unet_config"]["params"]["use_linear_in_transformer"] is True
    assert read["params"]["cond_stage_config"]["params"]["layer"] == "penultimate"
    inpainting = Model(single_file("sd1", 9), FAMILIES["sd1"], "x", Facts("v_prediction"))
    assert yaml.safe_load(inference_yaml(inpainting))["model"]["params"]["conditioning_key"] == "hybrid"


def test_xl_says_inside_what_it_predicts() -> None:
    facts = {"prediction": "v_prediction", "scheduler": {"rescale_betas_zero_snr": True}}
    state = model("sdxl", **facts).completed().state
    assert state["v_pred"].shape == state["ztsnr"].shape == (0,)
    assert "v_pred" not in model("sdxl").completed().state
    assert metadata_of(model("sdxl", **facts), "t", "d")["ss_zero_terminal_snr"] == "True"
