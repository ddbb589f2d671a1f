"""Stable Diffusion 3 from the command line: trained, gone on with, previewed, cached, drawn from, small."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from support.runs import load, newest_run
from support.sd3 import small_config, tiny_conditioner, write_encoders
from support.small import contents
from torch import Tensor

from ldm.diffusion.conditioning import Conditioning
from ldm.modules.encoders.sd3 import SD3Conditioner
from ldm.modules.networks.mmdit import MMDiT
from lun.sample.command import run as sample

Lun = Callable[..., int]
TEXT = "model.params.cond_stage_config.params"
PROMPTS = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 2, "
    "prompts: [red noise], log_images_kwargs: {ddim_steps: 2, unconditional_guidance_scale: 2.0}}}"
)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return small_config(tmp_path)


def line(small: Path, pictures: Path, logs: Path, steps: int) -> list[str]:
    words = ["--base", str(small), "--data_root", str(pictures), "--logdir", str(logs), "-t"]
    return [*words, f"lightning.trainer.max_steps={steps}", "model.params.scheduler_config.params.total_steps=9"]


def test_a_run_trains_previews_and_goes_on_as_if_never_stopped(
    lun: Lun, small: Path, pictures: Path, tmp_path: Path
) -> None:
    files = write_encoders(tmp_path, t5_length=8)
    given = ", ".join(f"{name}: {file}" for name, file in files.items())
    apart = [f"{TEXT}.ckpt_path={{{given}}}", f"{TEXT}.from_scratch=false"]
    assert lun(*line(small, pictures, tmp_path / "whole", 4), *apart, base=False) == 0
    assert lun(*line(small, pictures, tmp_path / "parts", 2), *apart, PROMPTS, base=False) == 0
    for file in files.values():  # a resume reads the run alone
        file.unlink()
    run = newest_run(tmp_path / "parts")
    assert list((run / "images/samples").glob("*.png"))
    before = load(run / "checkpoints/last.ckpt")["state_dict"]
    assert lun("-r", str(run), "-t", "lightning.trainer.max_steps=4", base=False) == 0
    after, whole = (load(newest_run(tmp_path / name) / "checkpoints/last.ckpt") for name in ("parts", "whole"))
    assert all(torch.equal(after["state_dict"][key], value) for key, value in whole["state_dict"].items())
    moved = {key for key, value in before.items() if not torch.equal(after["state_dict"][key], value)}
    assert "model.diffusion_model.joint_blocks.0.x_block.attn.qkv.weight" in moved
    table = "model.diffusion_model.pos_embed"
    frozen = (table, "first_stage_model.", "text_encoders.")
    assert table in before and not any(key.startswith(frozen) or "pos_embedpos" in key for key in moved)
    given_t5 = tiny_conditioner().state_dict()["t5xxl.transformer.shared.weight"]
    assert torch.equal(before["text_encoders.t5xxl.transformer.shared.weight"], given_t5)
    out = tmp_path / "drawn"
    assert sample([str(run), "red noise", "--steps", "2", "--scheduler", "euler", "-o", str(out)]) == 0
    assert contents(out) == ["0000-42.png", "sheet.png"]
    assert sample([str(run), "red noise", "--text-encoder", "t5=null"]) == 2  # a run has its own


def test_cached_captions_are_those_that_are_encoded_as_they_come(
    lun: Lun, small: Path, pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shutil.copytree(pictures, tmp_path / "data")
    captions = sorted(data.rglob("*.txt"))
    for place, file in enumerate(captions[:-1]):
        file.with_suffix(f".txt{2 + place % 2}").write_text(f"for another encoder {place}")
    seen: dict[str, list[Tensor]] = {"false": [], "true": []}
    calls: list[int] = []
    forward, encode = MMDiT.forward, SD3Conditioner.forward
    monkeypatch.setattr(SD3Conditioner, "forward", lambda self, captions: calls.append(1) or encode(self, captions))
    for cache, kept in seen.items():
        calls.clear()

        def watched(self: MMDiT, x_t: Tensor, t: Tensor, cond: Conditioning, kept: Any = kept) -> Tensor:
            kept.extend(part.clone() for part in (cond.context, cond.pooled, cond.place) if part is not None)
            return forward(self, x_t, t, cond)

        monkeypatch.setattr(MMDiT, "forward", watched)
        words = [f"data.params.cache={cache}", "model.params.ucg_rate=0.3"]
        words.append("data.params.train.params.caption_per_encoder=true")
        assert lun(*line(small, data, tmp_path / cache, 3), *words, base=False) == 0
        during = len(calls)
    assert len(seen["true"]) == len(seen["false"]) == 9
    for online, cached in zip(seen["false"], seen["true"], strict=True):
        torch.testing.assert_close(cached, online)
    assert during <= 5  # to fill the cache, and no more while training


def test_sides_that_are_no_whole_patches_are_refused_before_anything_is_built(
    lun: Lun, small: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = line(small, pictures, tmp_path / "logs", 1)
    assert lun(*words, "data.params.train.params.size=10", base=False) == 2
    assert "sides of 10 pixels cannot be cut into patches" in capsys.readouterr().err
    assert lun(*words, "data.params.train.params.size=10", "--check", base=False) == 2


def test_a_vocabulary_that_is_not_there_is_named_at_the_plan(
    lun: Lun, small: Path, pictures: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        *line(small, pictures, tmp_path / "logs", 1),
        f"model.params.cond_stage_config.params.tokenizer_3={tmp_path}",
    ]
    planned = [word for word in words if word != "-t"]
    assert lun(*planned, base=False) == 4
    assert "tokenizer_3/tokenizer.json" in capsys.readouterr().err
    assert lun(*planned, "--check", base=False) == 0
