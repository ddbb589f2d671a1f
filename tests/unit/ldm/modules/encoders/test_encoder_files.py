"""Text encoders of one model that come in a file each."""

from pathlib import Path
from typing import Any

import pytest
import torch
from support.sd3 import CLIP_G, CLIP_L, T5, VOCABULARY, tiny_conditioner, write_encoders

from ldm.errors import Fault
from ldm.files.write import write_safetensors
from ldm.keys.split_checkpoint import TEXT_ENCODERS, Parts
from ldm.models.diffusion.part import Part
from ldm.modules.encoders.sd3 import SD3Conditioner

PARAMS: dict[str, Any] = {
    "clip": CLIP_L,
    "open_clip": CLIP_G,
    "t5": T5,
    "t5_length": 16,
    "tokenizer_3": str(VOCABULARY),
}
TARGET = "ldm.modules.encoders.sd3.SD3Conditioner"


def part(**params: Any) -> Part:
    recipe = {"target": TARGET, "params": {**PARAMS, **params}}
    return Part("model.params.cond_stage_config", recipe, "cond_stage_model.", "text_encoder")


def parts(cond_stage: dict[str, torch.Tensor] | None = None) -> Parts:
    return Parts({}, {}, cond_stage or {}, {}, {})


def test_each_encoder_comes_from_its_own_file(tmp_path: Path) -> None:
    files = {name: str(file) for name, file in write_encoders(tmp_path).items()}
    built, expected = SD3Conditioner(ckpt_path=files, **PARAMS).state_dict(), tiny_conditioner().state_dict()
    assert built.keys() == expected.keys() and all(torch.equal(built[key], expected[key]) for key in expected)
    part(ckpt_path=files).require_encoders(parts(), "nothing")


def test_an_encoder_is_found_in_a_folder_and_in_a_whole_checkpoint(tmp_path: Path) -> None:
    write_encoders(tmp_path, "t5")
    (tmp_path / "text_encoder_3").mkdir()
    (tmp_path / "t5xxl_fp16.safetensors").rename(tmp_path / "text_encoder_3" / "model.safetensors")
    whole = tiny_conditioner()
    state = {TEXT_ENCODERS + key: value for key, value in whole.to_disk(whole.state_dict()).items()}
    write_safetensors(tmp_path / "whole.safetensors", state)
    file = str(tmp_path / "whole.safetensors")
    built = SD3Conditioner(ckpt_path={"clip": file, "open_clip": file, "t5": str(tmp_path)}, **PARAMS).state_dict()
    assert all(torch.equal(built[key], value) for key, value in whole.state_dict().items())


def test_one_that_has_a_file_of_its_own_takes_the_place_of_the_checkpoints(tmp_path: Path) -> None:
    files = write_encoders(tmp_path, "t5")
    checkpoint = {key: torch.zeros_like(value) for key, value in tiny_conditioner().state_dict().items()}
    found = part(ckpt_path={"t5": str(files["t5"]), "clip": None}).among(parts(checkpoint))
    assert all(value.any() for key, value in found.items() if key.startswith("t5xxl.") and "wi_" in key)
    assert not any(value.any() for key, value in found.items() if key.startswith("clip_"))


@pytest.mark.parametrize("held", [(), ("clip_l",), ("clip_l", "clip_g")])
def test_an_encoder_that_neither_has_is_named_with_its_file_and_how_to_do_without(held: tuple[str, ...]) -> None:
    state = {key: value for key, value in tiny_conditioner().state_dict().items() if key.startswith(held or ("-",))}
    with pytest.raises(Fault) as caught:
        part(ckpt_path={} if held else {"clip": None}).require_encoders(
            parts(state or {"other": torch.ones(1)}), "a file"
        )
    fault = caught.value
    lacking = {"clip_l": "clip", "clip_g": "open_clip", "t5xxl": "t5"}
    names = [setting for name, setting in lacking.items() if name not in held]
    assert fault.id == "MOD06" and fault.what.endswith(f"{', '.join(names)} got no weights")
    assert "t5xxl_fp16.safetensors" in fault.why and "cond_stage_config.params.ckpt_path.t5=" in fault.fix
    assert "cond_stage_config.params.t5=null" in fault.fix
    part(**dict.fromkeys(names, None)).require_encoders(parts(state), "a file")


def test_a_file_of_another_encoder_is_named(tmp_path: Path) -> None:
    files = write_encoders(tmp_path)
    with pytest.raises(Fault, match="clip_g.safetensors is not the text encoder t5xxl") as caught:
        part(ckpt_path={"t5": str(files["open_clip"])}).require_encoders(parts(), "nothing")
    assert caught.value.id == "MOD03" and "text encoder of width 8" in caught.value.why


def test_a_file_for_an_encoder_that_is_null_or_unknown_is_refused(tmp_path: Path) -> None:
    files = write_encoders(tmp_path, "t5")
    with pytest.raises(Fault, match="has no place: the text encoder t5 is null"):
        part(t5=None, ckpt_path={"t5": str(files["t5"])}).build_on_meta()  # as `--check` does
    with pytest.raises(Fault, match="the model has no text encoder t6") as caught:
        part(ckpt_path={"t6": "a"}).build_on_meta()
    assert caught.value.why == "there are clip, open_clip, t5"
