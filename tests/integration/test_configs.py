"""Every config that is shipped is without faults."""

from pathlib import Path

import pytest

from lun.trainer import run

CONFIGS = Path(__file__).parents[2] / "configs"
TXT2IMG = ["training-lightning.yaml", "training-txt2img.yaml"]
MODELS = sorted(path.relative_to(CONFIGS).as_posix() for path in (CONFIGS / "models").glob("*.yaml"))
OPTIONS = sorted(path.relative_to(CONFIGS).as_posix() for path in (CONFIGS / "options").glob("*.yaml"))
DATA = sorted(path.relative_to(CONFIGS).as_posix() for path in (CONFIGS / "data").glob("*.yaml"))
COMBINATIONS = [
    ["training-lightning.yaml", "demo/emoji.yaml"],
    ["demo/emoji.yaml"],
    TXT2IMG,
    ["training-lightning.yaml", "training-encoder.yaml"],
    ["training-lightning.yaml", "demo/first-stage.yaml"],
    *([*TXT2IMG, model] for model in MODELS),
    *([*TXT2IMG, option] for option in OPTIONS + DATA),
]


@pytest.mark.parametrize("files", COMBINATIONS, ids=" ".join)
def test_a_shipped_combination_has_no_faults(
    files: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(CONFIGS.parent)
    words = [str(CONFIGS / file) for file in files]
    assert run(["--base", *words, "--check", "--data_root", "configs/demo/data/train"]) == 0
    assert capsys.readouterr().out == "the configuration has no faults\n"


def test_every_config_is_among_those_combinations() -> None:
    shipped = {path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.yaml")}
    assert shipped == {file for files in COMBINATIONS for file in files}
