"""What is said of a folder that is not there, by every command that takes one as DIR or by a config."""

import importlib
import re
from pathlib import Path

import pytest
import yaml
from support.runs import make_pictures

ROOT = Path(__file__).resolve().parents[4]
LOCAL = "lun.data.local.Local"
WORDS = {
    "annotate": ([], ["--with", "caption"]),
    "inspect": ([], []),
    "measure": (["samples"], ["--dino", "dino"]),
    "pack": ([], ["-o", "out"]),
}
"""What each needs before the folder and after it."""
CASES = [
    *((name, "cots", "cats") for name in WORDS),
    *((name, "bare", "DIR, a folder") for name in ("inspect", "pack")),
]
RECIPES = {
    "data.params.train": {"target": LOCAL, "params": {"data_root": "cots"}},
    "data.params.train.sets.cats": {"sets": {"cats": {"target": LOCAL, "params": {"data_root": "cots"}, "weight": 1}}},
}


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("desk")
    make_pictures(root / "cats", 2)
    (root / "bare").mkdir()
    (root / "bare" / "readme.md").touch()
    for setting, recipe in RECIPES.items():
        (root / f"{setting}.yaml").write_text(yaml.safe_dump({"data": {"params": {"train": recipe}}}))
    return root


def said(name: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command that misses its folder."""
    assert importlib.import_module(f"lun.{name}.command").run([*WORDS[name][0], *words, *WORDS[name][1]]) == 3
    return capsys.readouterr().err


def test_every_command_that_takes_a_folder_of_pictures_is_known() -> None:
    takes = re.compile(r'add_recipe_arguments\(|"folder", metavar="DIR"')
    found = {path.parent.name for path in ROOT.glob("lun/*/*.py") if takes.search(path.read_text())} - {"cli"}
    assert found == WORDS.keys()


@pytest.mark.parametrize(("name", "given", "fix"), CASES)
def test_a_folder_given_as_a_word_is_named_as_that_word(
    name: str, given: str, fix: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    told = said(name, [given], capsys)
    assert "--data_root" not in told and "where: DIR\n" in told
    assert re.search(rf"fix:   python -m lun\.{name} .*{fix}", told), told


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("setting", RECIPES)
def test_a_folder_of_a_config_is_named_by_its_setting(
    name: str, setting: str, desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk)
    one = ["--set", "cats"] if setting.endswith("cats") and name != "inspect" else []
    told = said(name, ["--base", f"{setting}.yaml", *one], capsys)
    assert "--data_root" not in told and f"where: {setting}.params.data_root\n" in told
    assert f"fix:   {desk / 'cats'}\n" in told
