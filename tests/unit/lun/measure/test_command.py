"""`python -m lun.measure`: numbers of samples beside data, pairs with pictures, and what is refused in one message."""

import json
import shutil
from pathlib import Path

import pytest
from PIL import Image, PngImagePlugin
from support.runs import make_pictures
from support.tiny_encoders import clip, dino, vit

from lun.measure.command import run


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("desk")
    make_pictures(root / "data", 6)
    for name, make in (("clip", clip), ("dino", dino), ("vit", vit)):
        make(root / name)
    (root / "samples").mkdir()
    pictures = sorted((root / "data").rglob("*.png"))
    for number, path in enumerate(pictures[:3]):
        told = PngImagePlugin.PngInfo()
        told.add_text("lun", json.dumps({"prompt": "a red cat"}))
        with Image.open(path) as image:
            flipped = image.transpose(Image.Transpose.FLIP_TOP_BOTTOM) if number else image
            flipped.save(root / "samples" / f"000{number}.png", pnginfo=told)
    Image.new("RGB", (16, 16)).save(root / "samples" / "sheet.png")
    return root


def test_samples_are_measured_and_the_copy_comes_first(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    encoders = ["--clip", "clip", "--dino", "dino", "--features", "vit", "--device", "cpu"]
    assert run(["samples", "data", *encoders, "-o", str(tmp_path / "out")]) == 0, capsys.readouterr().err
    told = json.loads((tmp_path / "out" / "measures.json").read_text())
    names = {"clip_score", "cmmd", "nearest_clip", "fd_dino", "nearest_dino", "fd_features", "nearest_features"}
    assert told["numbers"].keys() == names
    assert (told["samples"], told["pictures"]) == (3, 6)
    first = told["nearest"][0]
    assert first["cosine"] == pytest.approx(1) and first["sample"] == "samples/0000.png"
    assert Path(first["picture"]).name == sorted((desk / "data").rglob("*.png"))[0].name
    with Image.open(tmp_path / "out" / "nearest.png") as sheet:
        assert sheet.width > 6 * 160
    assert "fd_dino" in capsys.readouterr().out


def test_without_data_there_is_the_clip_score_alone(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    assert run(["samples", "--clip", "clip", "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "clip_score" in said and "cmmd" not in said


def test_without_prompts_the_distances_are_told_and_that_there_is_no_clip_score(
    desk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    (tmp_path / "plain").mkdir()
    for path in (desk / "samples").glob("0*.png"):
        with Image.open(path) as image:
            image.save(tmp_path / "plain" / path.name)
    assert run([str(tmp_path / "plain"), "data", "--clip", "clip", "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert "no CLIP score" in said and "cmmd" in said and "clip_score" not in said
    assert run([str(tmp_path / "plain"), "--clip", "clip"]) == 2
    assert "--clip has no effect" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["samples", "data"], 2, "no encoder is given"),
        (["samples", "--dino", "dino"], 2, "--dino compares samples with data"),
        (["samples", "data", "--dino", "dino", "--most", "1"], 2, "--most cannot be 1"),
        (["samples", "data", "--dino", "dino", "-o", "data"], 2, "data is there already"),
        (["nothing", "data", "--dino", "dino"], 3, "there is no folder nothing"),
        (["samples", "dta", "--dino", "dino"], 3, "data folder not found: dta\n  where: DIR\n"),
        (["clip", "data", "--dino", "dino"], 3, "there are no samples in clip"),
        (["one", "data", "--dino", "dino", "--device", "cpu"], 3, "1 samples, 6 of the data"),
        (["samples", "data", "--dino", "vit", "--device", "cpu"], 4, "no model for DINO"),
        (["samples", "data", "--clip", "data"], 4, "hf download openai/clip-vit-large-patch14"),
    ],
)
def test_what_cannot_be_measured_is_refused_by_name(
    desk: Path,
    words: list[str],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(desk)
    if words[0] == "one":
        (desk / "one").mkdir()
        shutil.copy(desk / "samples" / "0000.png", desk / "one")
    assert run(words) == code
    assert said in capsys.readouterr().err
