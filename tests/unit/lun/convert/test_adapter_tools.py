"""Adapters as the converter makes them: out of models, into models, respelt, resized, joined and in part."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from support.small import single_file
from support.small_sd3 import file_of
from torch import Tensor

from ldm.keys.split_checkpoint import UNET
from lun.convert.command import run

Refused = Callable[..., str]
STATES = {"sd1": lambda: single_file("sd1"), "sdxl": lambda: single_file("sdxl"), "sd3": lambda: file_of("medium")}
PLANTED = {
    "sd1": ("input_blocks.1.1.transformer_blocks.0.attn1.to_q", "input_blocks.1.0.in_layers.2"),
    "sdxl": ("input_blocks.4.1.transformer_blocks.0.attn1.to_q", "label_emb.0.0"),
    "sd3": ("joint_blocks.0.x_block.attn.qkv", "final_layer.adaLN_modulation.1"),
}
TEXT = {
    "sd1": "cond_stage_model.transformer.text_model.encoder.layers.0.mlp.fc1.weight",
    "sdxl": "conditioner.embedders.1.model.transformer.resblocks.0.mlp.c_fc.weight",
    "sd3": "text_encoders.clip_g.transformer.text_model.encoder.layers.0.mlp.fc1.weight",
}


KEY = "lora_unet_mid_block_attentions_0_proj_in"


def converted(*words: str | Path) -> None:
    assert run([str(word) for word in words]) == 0


def told(path: Path) -> dict[str, str]:
    with safe_open(path, "pt") as opened:
        return dict(opened.metadata())


def tuned(family: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """A whole model, and the same after its layers have changed by products of rank 4."""
    base = STATES[family]()
    generator = torch.Generator().manual_seed(1)
    after = dict(base)
    for key in (*(f"{UNET}{name}.weight" for name in PLANTED[family]), TEXT[family]):
        out, columns = base[key].flatten(1).shape
        parts = 3 if key.endswith("qkv.weight") else 1  # the network has three layers of a third of the rows
        ups = [torch.randn(out // parts, 4, generator=generator) for _ in range(parts)]
        delta = torch.cat([up @ torch.randn(4, columns, generator=generator) for up in ups])
        after[key] = base[key] + 0.1 * delta.reshape(base[key].shape)
    return base, after


@pytest.fixture(scope="module", params=STATES)
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with base.safetensors, tuned.safetensors and what was extracted from both at rank 4."""
    folder = tmp_path_factory.mktemp(request.param)
    for name, state in zip(("base", "tuned"), tuned(request.param), strict=True):
        save_file({key: value.contiguous() for key, value in state.items()}, folder / f"{name}.safetensors")
    words = ("--extract", folder / "base.safetensors", "--rank", "4")
    converted(folder / "tuned.safetensors", folder / "lora.safetensors", "--to", "kohya", *words)
    return folder


def test_a_planted_change_is_extracted_exactly_and_added_to_its_base_is_the_tuned_model(
    models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told_of = told(models / "lora.safetensors")
    assert float(told_of["lun.extracted.error"]) < 1e-5 and told_of["lun.extracted.rank"] == "4"
    errors = json.loads(told_of["lun.extracted.errors"])
    assert len(errors) in (3, 5) and max(errors.values()) < 1e-5
    again = models / "again.safetensors"
    converted(models / "base.safetensors", again, "--to", "ldm", "--adapter", models / "lora.safetensors", "--force")
    before, wanted, got = (load_file(models / f"{name}.safetensors") for name in ("base", "tuned", "again"))
    changed = {key for key in wanted if not torch.equal(wanted[key], before[key])}
    assert {key for key in got if not torch.equal(got[key], before[key])} == changed
    for key in changed:
        torch.testing.assert_close(got[key], wanted[key], rtol=1e-4, atol=1e-5)


@pytest.fixture
def lora(tmp_path: Path) -> Path:
    """A LoRA of one layer of Stable Diffusion 1.x."""
    generator = torch.Generator().manual_seed(3)
    path = tmp_path / "lora.safetensors"
    save_file(
        {
            f"{KEY}.lora_down.weight": torch.randn(6, 1280, 1, 1, generator=generator),
            f"{KEY}.lora_up.weight": torch.randn(1280, 6, 1, 1, generator=generator),
            f"{KEY}.alpha": torch.tensor(3.0),
        },
        path,
        {"ss_base_model_version": "sd_v1", "sshs_model_hash": "old", "ss_training_comment": "mine"},
    )
    return path


def product(state: dict[str, Tensor], key: str) -> Tensor:
    up, down = (state[f"{key}.lora_{end}.weight"].flatten(1) for end in ("up", "down"))
    return up @ down * (float(state[f"{key}.alpha"]) / down.shape[0])


def test_diffusers_layout_and_back_at_half_strength_joined_with_its_own_opposite(lora: Path, tmp_path: Path) -> None:
    other, back = tmp_path / "other.safetensors", tmp_path / "back.safetensors"
    converted(lora, other, "--to", "diffusers")
    assert set(load_file(other)) == {f"unet.mid_block.attentions.0.proj_in.lora_{end}.weight" for end in "AB"}
    converted(f"{other}:0.5", back, "--to", "kohya", "--adapter", f"{lora}:-1", "--adapter", lora)
    first, second = load_file(lora), load_file(back)
    assert first.keys() == second.keys() and second[f"{KEY}.lora_down.weight"].shape == (18, 1280, 1, 1)
    torch.testing.assert_close(product(second, KEY), 0.5 * product(first, KEY), rtol=1e-3, atol=1e-3)
    assert told(back)["lun.joined"] == "lora.safetensors:-1 + lora.safetensors:1"
    converted(back, tmp_path / "few.safetensors", "--to", "kohya", "--rank", "6", "--layers", "unet.mid*")
    few = load_file(tmp_path / "few.safetensors")
    torch.testing.assert_close(product(few, KEY), 0.5 * product(first, KEY), rtol=1e-3, atol=1e-3)
    assert few[f"{KEY}.lora_down.weight"].shape[0] == 6


def test_a_resized_file_says_its_error_and_keeps_what_it_said_but_for_old_hashes(lora: Path, tmp_path: Path) -> None:
    converted(lora, tmp_path / "small.safetensors", "--to", "kohya", "--rank", "64,error=0.5", "--dtype", "fp16")
    said, state = told(tmp_path / "small.safetensors"), load_file(tmp_path / "small.safetensors")
    assert said["ss_training_comment"] == "mine" and "sshs_model_hash" not in said
    assert 0.1 < float(said["lun.extracted.error"]) <= 0.5 and int(said["ss_network_dim"]) < 6
    assert {value.dtype for key, value in state.items() if "alpha" not in key} == {torch.float16}


@pytest.mark.parametrize(
    ("words", "code", "fault", "said"),
    [
        (("--to", "ldm"), 4, "MOD03", "--adapter lora.safetensors"),
        (("--to", "diffusers", "--merge"), 4, "MOD03", "holds adapters"),
        (("--to", "kohya", "--rank", "none"), 2, "CLI03", "cumulative"),
        (("--to", "kohya", "--layers", "text_encoder*"), 2, "CLI05", "matches no layer"),
        (("--to", "kohya", "--ema"), 2, "CLI02", "for runs"),
        (("--to", "kohya", "--extract", "in.safetensors"), 2, "CLI03", "needs --rank"),
        (("--to", "kohya", "--extract", "in.safetensors", "--rank", "4"), 4, "MOD03", ""),
    ],
)
def test_what_cannot_be_done_with_a_file_of_adapters_is_refused_by_name(
    lora: Path, refused: Refused, words: tuple[str, ...], code: int, fault: str, said: str,
    monkeypatch: pytest.MonkeyPatch, file: Path,
) -> None:  # fmt: skip
    monkeypatch.chdir(lora.parent)
    (lora.parent / "in.safetensors").symlink_to(file)
    assert said in refused(code, fault, "lora.safetensors", "out.safetensors", *words)


def test_what_only_adapters_have_is_refused_of_a_whole_model(file: Path, refused: Refused, tmp_path: Path) -> None:
    for words in (("--rank", "4"), ("--layers", "unet.*")):
        assert words[0] in refused(2, "CLI02", file, tmp_path / "x.safetensors", "--to", "ldm", *words)
    for words in (("--to", "ldm"), ("--to", "kohya", "--merge")):
        message = refused(2, "CLI02", file, tmp_path / "x.safetensors", "--extract", file, "--rank", "4", *words)
        assert "--extract makes adapters" in message
    message = refused(4, "MOD03", file, tmp_path / "x.safetensors", "--to", "kohya", "--extract", file, "--rank", "4")
    assert "no weight of the layers" in message
