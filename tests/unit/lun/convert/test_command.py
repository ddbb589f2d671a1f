"""The converter as a person uses it: what it says and what it writes."""

from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support.small import contents, networks, same, single_file
from torch import Tensor

from ldm.keys.averaged import averaged_name
from ldm.keys.layout import autoencoder_to_compvis
from ldm.keys.split_checkpoint import FIRST_STAGE, UNET
from lun.convert.command import run

State = Mapping[str, Tensor]


def weights(path: Path) -> dict[str, Tensor]:
    if path.suffix == ".safetensors":
        return load_file(path)
    found: dict[str, Tensor] = torch.load(path, weights_only=True)["state_dict"]
    return found


def test_there_and_back_is_the_same_file_byte_for_byte(file: Path, tmp_path: Path) -> None:
    first, folder, second = tmp_path / "a.safetensors", tmp_path / "folder", tmp_path / "b.safetensors"
    assert run([str(file), str(first), "--to", "ldm"]) == 0
    assert run([str(first), str(folder), "--to", "diffusers"]) == 0
    assert run([str(folder), str(second), "--to", "ldm"]) == 0
    assert same(weights(first), single_file("sd1"))
    assert first.read_bytes() == second.read_bytes()


def test_the_same_input_gives_the_same_bytes(file: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert run([str(file), str(tmp_path / name / "x.safetensors"), "--to", "ldm", "--dtype", "bf16"]) == 0
    assert (tmp_path / "one" / "x.safetensors").read_bytes() == (tmp_path / "two" / "x.safetensors").read_bytes()


def test_half_precision_is_for_weights_and_not_for_counters(file: Path, tmp_path: Path) -> None:
    assert run([str(file), str(tmp_path / "x.safetensors"), "--to", "ldm", "--dtype", "fp16"]) == 0
    found = weights(tmp_path / "x.safetensors")
    positions = [key for key in found if key.endswith("position_ids")]
    assert {found[key].dtype for key in positions} == {torch.int64}
    assert {value.dtype for key, value in found.items() if key not in positions} == {torch.float16}


def test_a_torch_file_holds_the_same_tensors_and_nothing_that_needs_code(file: Path, tmp_path: Path) -> None:
    assert run([str(file), str(tmp_path / "x.ckpt"), "--to", "ldm"]) == 0
    assert same(weights(tmp_path / "x.ckpt"), single_file("sd1"))
    assert (tmp_path / "x.ckpt").stat().st_size < 1.1 * file.stat().st_size


def test_metadata_says_what_the_file_is(file: Path, tmp_path: Path) -> None:
    assert run([str(file), str(tmp_path / "pony.safetensors"), "--to", "ldm"]) == 0
    with safe_open(tmp_path / "pony.safetensors", "pt") as opened:
        told = opened.metadata()
    assert told["format"] == "pt"
    spec = {key.removeprefix("modelspec."): value for key, value in told.items() if key.startswith("modelspec.")}
    assert spec.pop("date").endswith("Z")
    assert len(spec.pop("hash_sha256")) == 66
    assert spec == {
        "sai_model_spec": "1.0.1",
        "architecture": "stable-diffusion-v1",
        "implementation": "https://github.com/Stability-AI/generative-models",
        "title": "pony",
        "resolution": "512x512",
        "prediction_type": "epsilon",
        "predict_key": "epsilon",
    }


def test_averaged_weights_go_out_unless_the_raw_ones_are_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    raw = single_file("sd1")
    averaged = {averaged_name(key): value + 1 for key, value in raw.items() if key.startswith(UNET)}
    torch.save({"state_dict": raw | averaged | {"model_ema.decay": torch.tensor(0.9)}}, tmp_path / "in.ckpt")
    key = UNET + "out.2.bias"
    for flags, bias, said in (
        ([], raw[key] + 1, "averaged (EMA): 686 tensors"),
        (["--ema"], raw[key] + 1, "averaged (EMA): 686 tensors"),
        (["--no-ema"], raw[key], "those of the last step"),
    ):
        assert run([str(tmp_path / "in.ckpt"), str(tmp_path / "x.safetensors"), "--to", "ldm", "--force", *flags]) == 0
        found = weights(tmp_path / "x.safetensors")
        assert torch.equal(found[key], bias)
        assert found.keys() == raw.keys()
        assert said in capsys.readouterr().out


def test_the_vae_alone_has_the_names_that_programs_expect(file: Path, tmp_path: Path) -> None:
    assert run([str(file), str(tmp_path / "vae.safetensors"), "--to", "ldm", "--vae", "only"]) == 0
    state = single_file("sd1")
    own = {key.removeprefix(FIRST_STAGE): value for key, value in state.items() if key.startswith(FIRST_STAGE)}
    assert same(weights(tmp_path / "vae.safetensors"), own)
    assert run([str(tmp_path / "vae.safetensors"), str(tmp_path / "vae"), "--to", "diffusers"]) == 0
    assert contents(tmp_path / "vae") == ["config.json", "diffusion_pytorch_model.safetensors", "lun.json"]
    assert run([str(tmp_path / "vae"), str(tmp_path / "again.safetensors"), "--to", "ldm", "--dtype", "fp16"]) == 0
    assert weights(tmp_path / "again.safetensors")["encoder.conv_in.weight"].dtype == torch.float16


def test_another_vae_takes_the_place_of_the_first(file: Path, tmp_path: Path) -> None:
    other = {key: value + 1 for key, value in autoencoder_to_compvis(networks("sd1").vae.state_dict()).items()}
    save_file({key: value.contiguous() for key, value in other.items()}, tmp_path / "vae.safetensors")
    out = tmp_path / "x.safetensors"
    assert run([str(file), str(out), "--to", "ldm", "--vae", str(tmp_path / "vae.safetensors")]) == 0
    kept = {key: value for key, value in single_file("sd1").items() if not key.startswith(FIRST_STAGE)}
    assert same(weights(out), kept | {FIRST_STAGE + key: value for key, value in other.items()})


def test_a_unet_alone_is_read_with_and_without_prefix_and_in_both_spellings(tmp_path: Path) -> None:
    before = {key: value for key, value in single_file("sd1").items() if key.startswith(UNET)}
    spellings: dict[str, State] = {
        "bare": {key.removeprefix(UNET): value for key, value in before.items()},
        "comfy": {key.removeprefix("model."): value for key, value in before.items()},
        "diffusers": networks("sd1").unet.state_dict(),
    }
    for name, state in spellings.items():
        save_file(dict(state), tmp_path / f"{name}.safetensors")
        out = tmp_path / f"{name}-out.safetensors"
        assert run([str(tmp_path / f"{name}.safetensors"), str(out), "--to", "ldm"]) == 0
        assert same(weights(out), before)


def test_2x_gets_the_yaml_that_says_what_it_predicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_file(single_file("sd2"), tmp_path / "in.safetensors")
    assert run([str(tmp_path / "in.safetensors"), str(tmp_path / "x.safetensors"), "--to", "ldm"]) == 0
    assert "the prediction is taken to be" in capsys.readouterr().out
    assert "parameterization: v" in (tmp_path / "x.yaml").read_text()
    # What was a guess is written down, so that it is none any more.
    assert run([str(tmp_path / "x.safetensors"), str(tmp_path / "y.safetensors"), "--to", "ldm"]) == 0
    assert "the prediction is taken to be" not in capsys.readouterr().out
