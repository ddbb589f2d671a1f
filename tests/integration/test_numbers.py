"""All numbers of `configs/options/numbers.yaml` in one run: they arrive, go on after a resume, and change no bit."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import save_file
from support.equality import differences, final_state
from support.models import tiny_model
from support.runs import make_pictures, newest_run
from support.tiny_encoders import clip, dino
from support.warm import VALIDATION

Lun = Callable[..., int]
ROOT = Path(__file__).resolve().parents[2]
ALL = str(ROOT / "configs/options/numbers.yaml")


def rows_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(row) for row in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def words(pictures: Path) -> list[str]:
    held = VALIDATION.replace("???", str(pictures))
    often = ["lightning.trainer.log_every_n_steps=2", "lightning.trainer.val_check_interval=3"]
    return [held, *often, "data.params.train.params.flip_p=0.0", "model.params.scheduler_config.params.total_steps=6"]


def test_with_all_numbers_on_and_a_resume_weights_and_averages_are_those_of_a_run_without(
    lun: Lun, tmp_path: Path, words: list[str]
) -> None:
    assert lun(*words, "lightning.trainer.max_steps=6", "-t", "-n", "off") == 0
    off = newest_run(tmp_path / "logs")
    assert lun("--base", ALL, *words, "lightning.trainer.max_steps=3", "-t", "-n", "on") == 0
    on = newest_run(tmp_path / "logs")
    assert lun("-r", str(on), "lightning.trainer.max_steps=6", "-t", base=False) == 0
    assert differences(final_state(off), final_state(on)) == []
    rows = rows_of(on)
    names = {name for row in rows for name in row}
    for phase in ("train/loss_by_{}/", "val/loss_by_{}/", "val/loss_by_{}_ema/", "val/loss_by_{}_rel/"):
        for kind in ("snr", "size", "tag"):
            assert any(name.startswith(phase.format(kind)) for name in names), phase.format(kind)
    require_means(rows)
    pictures = json.loads((on / "metrics/pictures.json").read_text())
    assert {(one["split"], one["n"]) for one in pictures["pictures"] if one["split"] == "val"} == {("val", 2)}
    assert pictures["step"] == 6 and len(pictures["copies"]) == 11  # the same folder is held out
    assert any("val/gap" in row for row in rows)
    last = [row for row in rows if "grad_norm/unet.mid_block" in row][-1]
    assert last["step"] == 6 and last["train/grad_norm_max"] >= last["train/grad_norm"] > 0
    assert any(0 < row.get("update_ratio/text_encoder.embedding", 0) < 0.1 for row in rows)


def require_means(rows: list[dict[str, Any]]) -> None:
    """One size alone: its loss in a log's window, here of all pictures, is that of validation as a whole."""
    whole = {row["step"]: row["val/loss_simple"] for row in rows if "val/loss_simple" in row}
    sized = {row["step"]: row["val/loss_by_size/8x8"] for row in rows if "val/loss_by_size/8x8" in row}
    assert sized == pytest.approx(whole, rel=1e-5) and len(whole) == 2
    assert [row["step"] for row in rows if "train/loss_by_size/8x8" in row] == [2, 3, 4, 6]


def red_and_blue(root: Path, count: int, wrong: int) -> Path:
    """Plain pictures, half of them red and half blue, with captions that say so, but for one."""
    numbers = np.random.default_rng(0)
    for folder in ("img", "txt"):
        (root / folder).mkdir(parents=True)
    for i in range(count):
        pixels = ((220, 30, 30), (30, 30, 220))[i % 2] + numbers.integers(-4, 5, (8, 8, 3))
        Image.fromarray(pixels.astype(np.uint8)).save(root / "img" / f"{i:03}.png")
        (root / "txt" / f"{i:03}.txt").write_text(("red", "blue")[(i + (i == wrong)) % 2])
    return root


def plain_first_stage(file: Path) -> str:
    """A first stage whose latents hold no noise, so that there is something to learn."""
    model = tiny_model()
    model.configure_model()
    state = model.first_stage_model.to_disk(model.first_stage_model.state_dict())
    state = {name: weight.detach().clone().contiguous() for name, weight in state.items()}
    state["quant_conv.weight"][4:], state["quant_conv.bias"][4:] = 0, -20
    save_file(state, str(file))
    return str(file)


def test_a_planted_mislabelled_picture_is_first_among_those_that_stand_out(
    lun: Lun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first_stage = plain_first_stage(tmp_path / "first_stage.safetensors")
    words = ["lightning.trainer.max_steps=120", "lightning.trainer.log_every_n_steps=20", "data.params.batch_size=8"]
    words += ["model.base_learning_rate=1e-2", "model.params.ucg_rate=0", "model.params.use_ema=false"]
    words += ["model.params.parameterization=v", "model.params.scale_by_std=true"]
    words += [f"model.params.first_stage_config.params={{from_scratch: false, ckpt_path: {first_stage}}}"]
    words += ["lightning.callbacks.pictures={target: lun.callbacks.PictureLosses}"]
    assert lun(*words, "-t", data=red_and_blue(tmp_path / "data", 24, wrong=7)) == 0
    found = json.loads((newest_run(tmp_path / "logs") / "metrics/pictures.json").read_text())["pictures"]
    assert len(found) == 24 and Path(found[0]["path"]).name == "007.png"
    assert found[0]["excess"] > 3 * abs(found[1]["excess"])
    assert "007.png" in capsys.readouterr().out.split("stand out")[1]


@pytest.mark.parametrize(
    "data",
    [["data.params.num_workers=1"], ["data.params.buckets={resolutions: [8], step: 4}", "data.params.cache=true"]],
)
def test_a_picture_that_is_held_out_and_trained_on_has_no_gap(lun: Lun, tmp_path: Path, data: list[str]) -> None:
    one = make_pictures(tmp_path / "one", 1)
    words = [
        VALIDATION.replace("???", str(one)),
        "lightning.trainer.max_steps=2",
        "data.params.train.params.flip_p=0.0",
    ]
    gap = "lightning.callbacks.gap={target: lun.callbacks.HeldOutGap}"
    assert lun(*words, *data, gap, "lightning.trainer.val_check_interval=1", "-t", data=one) == 0
    rows = rows_of(newest_run(tmp_path / "logs"))
    assert [row["val/gap"] for row in rows if "val/gap" in row] == pytest.approx([0, 0], abs=1e-6)
    own = [row["val/loss_simple"] for row in rows if "val/loss_simple" in row]
    assert [row["val/loss_of_trained"] for row in rows if "val/gap" in row] == pytest.approx(own)


def test_samples_are_scored_during_training_and_change_no_bit(lun: Lun, tmp_path: Path, words: list[str]) -> None:
    clip(tmp_path / "clip")
    dino(tmp_path / "dino")
    assert lun(*words, "lightning.trainer.max_steps=2", "-t", "-n", "off") == 0
    off = newest_run(tmp_path / "logs")
    params = f"clip: {tmp_path}/clip, dino: {tmp_path}/dino, every_n_train_steps: 2, pictures: 3, steps: 1"
    scores = f"lightning.callbacks.scores={{target: lun.callbacks.SampleScores, params: {{{params}}}}}"
    assert lun(*words, scores, "lightning.trainer.max_steps=2", "-t", "-n", "on") == 0
    on = newest_run(tmp_path / "logs")
    assert differences(final_state(off), final_state(on)) == []
    names = {f"samples/{name}" for name in ("clip_score", "cmmd", "nearest_clip", "fd_dino", "nearest_dino")}
    assert [row["step"] for row in rows_of(on) if names <= row.keys()] == [0, 2]
    told = json.loads((on / "metrics/samples.json").read_text())
    assert told["step"] == 2 and len(told["nearest"]) == 3
    kept = {path.name for path in (on / "metrics/nearest").iterdir()}
    assert kept == {pair["sample"] for pair in told["nearest"]} == {f"000000002-000{n}.jpg" for n in range(3)}
    assert told["nearest"][0]["cosine"] >= told["nearest"][-1]["cosine"] and told["nearest"][0]["picture"].endswith(
        "png"
    )


def test_scores_of_samples_without_an_encoder_are_refused(lun: Lun, capsys: pytest.CaptureFixture[str]) -> None:
    for params, code in (("{}", 2), ("{dino: a, compare: 0}", 2), ("{dino: a, compare: 1}", 2)):
        assert lun(f"lightning.callbacks.s={{target: lun.callbacks.SampleScores, params: {params}}}", "--check") == code
        assert "nothing to compute" in capsys.readouterr().err
