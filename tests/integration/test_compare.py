"""Checkpoints of runs side by side: which are shown, what each cell is, and what is not drawn again."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.run_folder import Page
from support.runs import TINY, make_pictures

from lun.compare.command import run as compare
from lun.compare.open_column import open_column
from lun.sample.command import run as sample
from lun.trainer import run as train

PROMPTS = (
    "lightning.callbacks.image_logger={target: lun.callbacks.ImageLogger, params: {batch_frequency: 9, "
    "prompts: [red noise, {prompt: blue noise, seed: 7}], "
    "log_images_kwargs: {ddim_steps: 1, unconditional_guidance_scale: 2.0}}}"
)
SAVES = (
    "lightning.callbacks.saves={target: lun.callbacks.Checkpoint, params: {filename: 'all/step-{step}', "
    "every_n_train_steps: 1, save_top_k: -1}}"
)
LORA = (
    "model.params.adapter_config={target: ldm.adapters.Adapters, params: {rules: {all: {match: 'unet.*to_q', "
    "kind: {target: ldm.adapters.LoRA, params: {rank: 2}}}}}}"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """logs/first of two steps, and logs/second, a LoRA on it."""
    place = tmp_path_factory.mktemp("runs")
    logs, data = place / "logs", make_pictures(place / "pictures", 4)
    line = ["--base", str(TINY), "--logdir", str(logs), "--data_root", str(data), PROMPTS, "--max_steps", "2", "-t"]
    assert train([*line, SAVES]) == 0
    (logs / "first").symlink_to((logs / "latest").resolve())
    lora = [LORA, "model.params.ema_config=null", "model.base_learning_rate=0.3"]
    lora += ["model.params.cond_stage_trainable=false", "model.params.monitor=val/loss_simple"]
    assert train([*line, "--init-from", str(logs / "first"), *lora]) == 0
    (logs / "second").symlink_to((logs / "latest").resolve())
    return logs


@pytest.fixture
def compared(runs: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """`compared(*words, code=0) -> compare.json` of a folder `x`; names of runs and files become paths."""

    def start(*words: str, code: int = 0) -> dict[str, Any]:
        line = [str(runs / word) if (runs / word.partition(":")[0]).exists() else word for word in words]
        assert compare([*line, "-o", str(tmp_path / "x"), "--batch", "1"]) == code
        found: dict[str, Any] = json.loads((tmp_path / "x/compare.json").read_text()) if code == 0 else {}
        return found

    return start


def pixels(path: Path) -> bytes:
    with Image.open(path) as picture:
        return picture.convert("RGB").tobytes()


def test_a_run_alone_is_all_its_checkpoints_each_as_lun_sample_draws_it(
    compared: Callable[..., dict[str, Any]], runs: Path, tmp_path: Path
) -> None:
    found = compared("first", "--raw", "--ema", "--guidance", "1", "--guidance", "3")
    assert [column["label"] for column in found["columns"]] == [
        f"step {step}, {weights}, guidance {scale}" for step in (1, 2) for weights in ("EMA", "raw") for scale in (1, 3)
    ]
    assert [(row["prompt"], row["seed"]) for row in found["rows"]] == [("red noise", 42), ("blue noise", 7)]
    line = [str(runs / "first"), "--raw", "--guidance", "3", "--batch", "1", "-o", str(tmp_path / "one")]
    assert sample(line) == 0
    for row, name in enumerate(("0000-42.png", "0001-7.png")):
        assert pixels(tmp_path / "x" / found["cells"][row][7]) == pixels(tmp_path / "one" / name)
    page = Page((tmp_path / "x/compare.html").read_text())
    assert page.unbalanced == [] and len(page.attributes("img")) == 16
    assert all(str(image["src"]).startswith("data:") for image in page.attributes("img"))
    with Image.open(tmp_path / "x/sheet.png") as sheet:
        assert sheet.width > 8 * 224


def test_what_was_drawn_is_not_drawn_again_until_its_inputs_change(
    compared: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def noted(opening: Any, *rest: Any) -> Any:
        opened.append(Path(opening.source.given).name)
        return open_column(opening, *rest)

    monkeypatch.setattr("lun.compare.drawing_columns.open_column", noted)
    first = compared("first", "--newest")
    assert opened == ["last.ckpt"]
    assert compared("first", "--newest") == first and opened == ["last.ckpt"]
    (torn := tmp_path / "x" / first["cells"][1][0]).write_bytes(torn.read_bytes()[:90])
    compared("first")  # the other checkpoint, and what was torn
    assert opened == ["last.ckpt", "step-1.ckpt", "last.ckpt"]
    compared("first", "--newest", "--steps", "2")
    assert len(opened) == 4 and len(list((tmp_path / "x/cells").iterdir())) == 6


def test_runs_stand_beside_the_base_that_they_started_from_with_the_settings_that_differ(
    compared: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    found = compared("second", "first", "--newest", "--base-model", "--raw")
    assert [column["label"] for column in found["columns"]] == ["base last", "A step 2, raw", "B step 2, raw"]
    assert found["settings that differ"]["model.base_learning_rate"] == ["0.3", "0.001"]
    for row in found["cells"]:
        base, _, first = (pixels(tmp_path / "x" / path) for path in row)
        assert base == first
    assert "model.base_learning_rate 0.3 0.001" in Page((tmp_path / "x/compare.html").read_text()).text


def test_the_strength_of_what_a_run_trained_is_an_axis(compared: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """At 0 it is the base, at 1 what it is without the option."""
    drawn = [compared("second", *more)["cells"][0][0] for more in ((), ("--strength", "1"))]
    none, one = (pixels(tmp_path / "x" / path) for path in drawn)
    found = compared("second", "--base-model", "--raw", "--strength", "0,1e5")
    base, off, much = (pixels(tmp_path / "x" / path) for path in found["cells"][0])
    assert none == one and base == off and much != off


def test_a_damaged_checkpoint_of_a_run_is_left_out_and_said(
    compared: Callable[..., dict[str, Any]], runs: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(runs / "first", tmp_path / "copy"))
    file = next(copy.rglob("step-1.ckpt"))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 255
    file.write_bytes(data)
    found = compared(str(copy))
    assert [column["label"] for column in found["columns"]] == ["step 2"]
    assert "is damaged" in found["left out"][0]
    assert "is damaged" in Page((tmp_path / "x/compare.html").read_text()).text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["first", "--base-model"], 2, "no run says which base model it started from"),
        (["first", "--strength", "0.5", "--newest"], 2, "--strength has no effect"),
        (["first", "--seed", "-1"], 2, "of the same seeds"),
        (["first", "--guidance", "3,3"], 2, "has a number twice"),
        (["first", "--guidance", "3,5", "--prompts", "own.txt"], 2, "varies what the prompt 'a fox' says itself"),
        (["first/checkpoints/all/step-1.ckpt", "--newest"], 2, "--newest has no effect"),
        (["first", "--ema-width", "0.1"], 4, "has no snapshots of an EMA"),
        (["first", "no-such-run"], 4, "error[MOD01]"),
    ],
    ids=lambda value: "",
)
def test_what_has_no_effect_or_cannot_be_compared_is_refused(
    words: list[str], code: int, message: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs / "own.txt").write_text("a fox --l 4\n")
    line = [str(runs / word) if word[0] not in "-0123456789" else word for word in words]
    assert compare([*line, "-o", str(tmp_path / "x")]) == code
    assert message in capsys.readouterr().err


def test_nothing_but_a_comparison_is_written_into(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/cat.png").touch()
    assert compare([str(runs / "first"), "-o", str(tmp_path / "mine")]) == 2
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["cat.png"]
