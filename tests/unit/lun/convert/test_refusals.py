"""What the converter refuses: one message, an exit code, nothing half-written, nothing lost."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support.small import contents, networks, same, single_file

from ldm.files import write
from ldm.keys.layout import autoencoder_to_compvis
from ldm.keys.split_checkpoint import UNET
from lun.convert.command import run

Refused = Callable[..., str]


def test_something_that_is_not_there_is_named(tmp_path: Path, refused: Refused) -> None:
    refused(4, "MOD01", tmp_path / "nothing.ckpt", tmp_path / "x.safetensors", "--to", "ldm")
    assert contents(tmp_path) == []


def test_what_exists_is_replaced_only_with_force(file: Path, tmp_path: Path, refused: Refused) -> None:
    out = tmp_path / "x.safetensors"
    out.write_text("mine")
    assert "exists already" in refused(2, "CLI05", file, out, "--to", "ldm")
    assert out.read_text() == "mine"
    assert run([str(file), str(out), "--to", "ldm", "--force"]) == 0
    assert same(load_file(out), single_file("sd1"))


@pytest.mark.parametrize(("to", "name"), [("diffusers", "home"), ("ldm", "home.ckpt")])
def test_a_folder_of_other_things_is_not_replaced_even_with_force(
    to: str, name: str, file: Path, tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "letters.txt").write_text("dear")
    assert "is not replaced" in refused(2, "CLI05", file, tmp_path / name, "--to", to, "--force")
    assert contents(tmp_path / name) == ["letters.txt"]


def test_a_folder_of_ours_is_replaced_with_force(file: Path, tmp_path: Path) -> None:
    words = [str(file), str(tmp_path / "out"), "--to", "diffusers"]
    assert run(words) == 0
    (tmp_path / "out" / "model_index.json").write_text("changed")
    assert run([*words, "--force"]) == 0
    assert (tmp_path / "out" / "model_index.json").read_text() != "changed"
    assert contents(tmp_path) == ["out"]


def test_a_yaml_that_someone_wrote_is_not_replaced(tmp_path: Path, refused: Refused) -> None:
    save_file(single_file("sd2"), tmp_path / "in.safetensors")
    (tmp_path / "x.yaml").write_text("mine")
    message = refused(2, "CLI05", tmp_path / "in.safetensors", tmp_path / "x.safetensors", "--to", "ldm")
    assert "x.yaml exists already" in message
    assert contents(tmp_path) == ["in.safetensors", "x.yaml"]
    assert (tmp_path / "x.yaml").read_text() == "mine"


@pytest.mark.parametrize(("to", "name"), [("diffusers", "x"), ("ldm", "x.ckpt"), ("ldm", "x.safetensors")])
def test_a_full_disk_is_told_beforehand(
    to: str, name: str, file: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(write.shutil, "disk_usage", lambda _: usage)
    assert "1.0 kB are free" in refused(8, "DSK01", file, tmp_path / name, "--to", to)
    assert contents(tmp_path) == []


@pytest.mark.parametrize(("to", "name"), [("diffusers", "x"), ("ldm", "x.ckpt"), ("ldm", "x.safetensors")])
def test_a_disk_that_fills_up_while_writing_leaves_what_was_there(
    to: str, name: str, file: Path, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run([str(file), str(tmp_path / name), "--to", to]) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    calls = iter(range(100))

    def full(descriptor: int) -> None:
        if next(calls) >= (2 if to == "diffusers" else 0):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    assert "No space left on device" in refused(8, "DSK01", file, tmp_path / name, "--to", to, "--force")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_place_that_cannot_be_written_is_told(file: Path, tmp_path: Path, refused: Refused) -> None:
    (tmp_path / "file").write_text("")
    refused(8, "DSK01", file, tmp_path / "file" / "x.safetensors", "--to", "ldm")


def test_a_file_of_something_else_is_refused(tmp_path: Path, refused: Refused) -> None:
    save_file({"lora_unet_x.alpha": torch.ones(1)}, tmp_path / "lora.safetensors")
    message = refused(4, "MOD03", tmp_path / "lora.safetensors", tmp_path / "x.ckpt", "--to", "ldm")
    assert "holds adapters and no whole model" in message and "--adapter" in message
    save_file({"double_blocks.0.img_attn.qkv.weight": torch.ones(1)}, tmp_path / "flux.safetensors")
    message = refused(4, "MOD03", tmp_path / "flux.safetensors", tmp_path / "x.ckpt", "--to", "ldm")
    assert "is no Stable Diffusion that is known here" in message
    assert "it looks like Flux" in message


def test_an_average_that_is_not_there_is_refused(file: Path, tmp_path: Path, refused: Refused) -> None:
    assert run([str(file), str(tmp_path / "folder"), "--to", "diffusers"]) == 0
    for source in (file, tmp_path / "folder"):
        message = refused(4, "MOD03", source, tmp_path / "x.ckpt", "--to", "ldm", "--ema")
        assert "holds no averaged (EMA) weights" in message


def test_nan_is_refused_and_its_tensor_named(tmp_path: Path, refused: Refused) -> None:
    key = UNET + "out.2.bias"
    save_file(single_file("sd1") | {key: torch.full((4,), torch.nan)}, tmp_path / "in.safetensors")
    assert key in refused(4, "MOD02", tmp_path / "in.safetensors", tmp_path / "x.ckpt", "--to", "ldm")


def test_a_number_too_large_for_half_precision_is_refused(tmp_path: Path, refused: Refused) -> None:
    key = UNET + "out.2.bias"
    save_file(single_file("sd1") | {key: torch.full((4,), 1e5)}, tmp_path / "in.safetensors")
    line = (tmp_path / "in.safetensors", tmp_path / "x.safetensors", "--to", "ldm", "--dtype")
    assert key in refused(4, "MOD07", *line, "fp16")
    assert contents(tmp_path) == ["in.safetensors"]
    assert run([str(word) for word in (*line, "bf16")]) == 0


def test_a_vae_that_is_built_otherwise_or_not_there_is_refused(file: Path, tmp_path: Path, refused: Refused) -> None:
    state = autoencoder_to_compvis(networks("sd1").vae.state_dict())
    save_file({k: v.contiguous() for k, v in state.items() if "down.3" not in k}, tmp_path / "vae.safetensors")
    save_file(networks("sd1").unet.state_dict(), tmp_path / "unet.safetensors")
    line = (tmp_path / "x.ckpt", "--to", "ldm", "--vae")
    assert "is built otherwise" in refused(4, "MOD03", file, *line, tmp_path / "vae.safetensors")
    assert "holds no VAE" in refused(4, "MOD03", file, *line, tmp_path / "unet.safetensors")
    assert "holds no VAE" in refused(4, "MOD03", tmp_path / "unet.safetensors", *line, "only")


def test_a_folder_with_anything_of_somebody_else_in_it_is_not_replaced_even_with_force(
    file: Path, tmp_path: Path, refused: Refused
) -> None:
    out = tmp_path / "out"
    assert run([str(file), str(out), "--to", "diffusers"]) == 0
    (out / "unet" / "notes.txt").write_text("mine")
    assert "unet/notes.txt" in refused(2, "CLI05", file, out, "--to", "diffusers", "--force")
    assert (out / "unet" / "notes.txt").read_text() == "mine"


def test_a_folder_that_another_program_wrote_is_not_replaced_even_with_force(
    file: Path, tmp_path: Path, refused: Refused
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").write_text("{}")
    (tmp_path / "out" / "model_index.json").write_text("{}")
    assert "did not write it" in refused(2, "CLI05", file, tmp_path / "out", "--to", "diffusers", "--force")


def test_what_is_converted_is_never_replaced_by_the_result(file: Path, tmp_path: Path, refused: Refused) -> None:
    out = tmp_path / "out"
    assert run([str(file), str(out), "--to", "diffusers"]) == 0
    assert "what is converted" in refused(2, "CLI05", out, out, "--to", "diffusers", "--force")
    assert "what is converted" in refused(2, "CLI05", file, file.parent, "--to", "diffusers", "--force")
    assert "what is converted" in refused(2, "CLI05", file, file, "--to", "ldm", "--force")
