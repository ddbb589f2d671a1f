"""Every config that is shipped is without faults, over every model that it claims to fit."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from support import bitsandbytes_stub

from ldm.diffusion.compvis_objective import DEFAULTS, combined_objective
from ldm.diffusion.noise import Offset
from ldm.missing_packages import install_line
from lun.config.reading.presets import Preset, presets
from lun.trainer import run

CONFIGS = Path(__file__).parents[2] / "configs"
TXT2IMG = ["training-lightning.yaml", "training-txt2img.yaml"]
PRESETS = presets(CONFIGS.parent)
MODELS = [preset for preset in PRESETS if preset.group == "models"]
COMBINATIONS = [
    ["training-lightning.yaml", "demo/emoji.yaml"],
    ["demo/emoji.yaml"],
    ["demo/emoji-flow.yaml"],
    ["demo/emoji-ti.yaml"],
    TXT2IMG,
    ["training-lightning.yaml", "training-encoder.yaml"],
    ["training-lightning.yaml", "demo/first-stage.yaml"],
    ["demo/first-stage-scratch.yaml"],
    [*TXT2IMG, "models/sd15.yaml"],
]
WITHOUT_WEIGHTS = [TXT2IMG, ["training-lightning.yaml", "training-encoder.yaml"]]
"""What leaves it to whoever uses it where training begins."""
OF_SEVERAL_SETS = {"demo/emoji-lora.yaml"}
"""One `--data_root` is not for these: test_demo.py tries them with folders of their own."""
EXTENDING = ("sd35-medium", "sd35-large")
"""Differ from the model that they extend, which is tried, in numbers of the network."""
LAYERED = [
    (model, preset)
    for preset in PRESETS
    for model in MODELS
    if preset.group != "models" and (model.name in preset.fits if preset.fits else model.name not in EXTENDING)
]
NETWORKS = ("sd15", "sd3-medium")
"""One model for each network that is shipped: what a preset changes in a network, it meets there."""
Read = Callable[..., dict[str, Any]]


@pytest.fixture(autouse=True)
def _with_bitsandbytes(monkeypatch: pytest.MonkeyPatch) -> None:
    bitsandbytes_stub.install(monkeypatch)
    monkeypatch.chdir(CONFIGS.parent)


@pytest.fixture
def read(capsys: pytest.CaptureFixture[str]) -> Read:
    """`read(name, ...) -> the configuration` of the presets of these names."""

    def start(*names: str) -> dict[str, Any]:
        assert run(["--base", *names, "--data_root", "configs/demo/data/train", "--print-config"]) == 0
        found: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
        return found

    return start


def has_no_faults(capsys: pytest.CaptureFixture[str], *names: str) -> bool:
    """That of some files, and settings among them."""
    assert run(["--base", *names, "--check", "--data_root", "configs/demo/data/train"]) == 0, capsys.readouterr().err
    return capsys.readouterr().out == "the configuration has no faults\n"


@pytest.mark.parametrize("files", COMBINATIONS, ids=" ".join)
def test_a_shipped_combination_has_no_faults(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    words = [str(CONFIGS / file) for file in files]
    if files in WITHOUT_WEIGHTS:
        assert run(["--base", *words, "--check", "--data_root", "configs/demo/data/train"]) == 4
        assert capsys.readouterr().err.count("error[") == 1
        words.append("model.params.ckpt_path=mine.ckpt")
    assert has_no_faults(capsys, *words)


@pytest.mark.parametrize("model", [model.name for model in MODELS])
def test_a_model_is_a_whole_config_by_its_name(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert has_no_faults(capsys, model)


def layered() -> Iterator[Any]:
    """Each preset over each network and one more model, another from preset to preset; `slow` over the rest."""
    others = {
        preset: [model for model, layer in LAYERED if layer == preset and model.name not in NETWORKS]
        for _, preset in LAYERED
    }
    for model, preset in LAYERED:
        among = others[preset]
        first = model.name in NETWORKS or model == among[PRESETS.index(preset) % len(among)]
        yield pytest.param(model, preset, id=f"{model.name}-{preset.name}", marks=() if first else (pytest.mark.slow,))


@pytest.mark.parametrize(("model", "preset"), list(layered()))
def test_a_preset_fits_the_model(model: Preset, preset: Preset, capsys: pytest.CaptureFixture[str]) -> None:
    assert has_no_faults(capsys, model.name, preset.name)


def test_every_config_is_among_those_combinations() -> None:
    shipped = {path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.yaml")}
    listed = {f"{preset.group}/{preset.name}.yaml" for preset in PRESETS}
    assert shipped == {file for files in COMBINATIONS for file in files} | OF_SEVERAL_SETS | listed
    assert {preset.name for preset in PRESETS} == {preset.name for _, preset in LAYERED} | {m.name for m in MODELS}


def test_a_preset_says_in_a_line_what_it_does_and_names_models_that_there_are() -> None:
    for preset in PRESETS:
        assert 20 < len(preset.about) <= 100 and preset.about.endswith("."), preset
        assert set(preset.fits) <= {model.name for model in MODELS}, preset


def test_presets_are_listed_without_a_command_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--list-presets"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {preset.name} " in shown and preset.about in shown for preset in PRESETS)
    assert shown.index(" 8gb ") < shown.index(" 12gb ") < shown.index(" 24gb-sdxl ")


def test_one_line_fine_tunes_on_ones_own_folder(read: Read) -> None:
    """Model, data and everything that a run needs come out of two names and a folder."""
    config = read("sd15", "bf16")
    assert config["lightning"]["trainer"]["precision"]["target"] == "lun.strategies.precision.Bf16Mixed"
    assert config["lightning"]["trainer"]["max_epochs"] == 10
    assert {"every-2k-steps", "periodic/step-{step:06d}"} <= {
        (callback.get("params") or {}).get("filename") for callback in config["lightning"]["callbacks"].values()
    }
    assert config["model"]["params"]["ckpt_path"] == "stable-diffusion-v1-5/stable-diffusion-v1-5"
    assert config["data"]["params"]["train"]["params"]["data_root"] == "configs/demo/data/train"
    assert "extends" not in config


def test_changes_of_the_objective_add_up_and_keep_what_the_model_predicts(read: Read) -> None:
    model = read("sd21-v", "offset-noise", "zero-terminal-snr")["model"]["params"]
    objective = combined_objective(
        model["objective"], DEFAULTS | {name: model[name] for name in DEFAULTS.keys() & model.keys()}
    )
    assert objective.prediction == "v" and isinstance(objective.noise, Offset)
    assert objective.path.schedule == ("linear", 0.00085, 0.012) and objective.path.zero_terminal_snr


def test_a_recipe_for_a_card_is_what_it_stands_on_and_its_own(read: Read) -> None:
    config = read("sd15", "8gb")
    assert config["model"]["params"]["optimizer_config"]["target"] == "bitsandbytes.optim.AdamW8bit"
    assert config["lightning"]["trainer"]["precision"] == "bf16-true"


def test_an_optimizer_whose_package_is_missing_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "bitsandbytes.optim")
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    assert run(["--base", "sd15", "adamw8bit", "--data_root", "configs/demo/data/train"]) == 7
    assert f"fix:   {install_line('bitsandbytes')}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("preset", "files"),
    [
        ("flat", ["img/a.png", "txt/a.txt", "img/b.png", "txt/b.txt"]),
        ("sidecar", ["x/a.png", "x/a.txt", "y/b.png", "y/b.txt"]),
        ("kohya", ["2_cat/a.png", "2_cat/a.txt", "3_dog/b.png"]),
    ],
)
def test_a_preset_for_a_layout_reads_it(
    preset: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        if file.endswith(".png"):
            Image.new("RGB", (8, 8)).save(tmp_path / file)
        else:
            (tmp_path / file).write_text("red, cat")
    tiny = str(Path(__file__).parents[1] / "fixtures" / "tiny.yaml")
    assert run(["--base", tiny, preset, "--data_root", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert f"{tmp_path}: {5 if preset == 'kohya' else 2} images" in shown
