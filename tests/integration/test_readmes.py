"""Every command and example that a README shows works."""

import re
import shlex
import sys
import types
from pathlib import Path

import pytest
import torch

from ldm.diffusion.draws import Draws
from lun.data.keyed import Keyed
from lun.launch import cli
from lun.trainer import run

ROOT = Path(__file__).parents[2]
READMES = sorted(path for path in ROOT.rglob("README.md") if not {".venv", "logs"} & set(path.parts))
READMES += sorted(ROOT.glob("docs/*.md"))
PLACEHOLDERS = {"DIR": "configs/demo/data/train", "CONFIGS": "configs/demo/emoji.yaml"}


def shell_lines(text: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    return [line.split(" # ")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


COMMANDS = [
    (path.relative_to(ROOT).as_posix(), line) for path in READMES for line in shell_lines(path.read_text("utf-8"))
]
PROGRAM = [pytest.param(line, id=f"{name}: {line}") for name, line in COMMANDS if line.startswith("python main.py")]


def words(line: str) -> list[str]:
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(line)[2:]]


@pytest.mark.parametrize("line", PROGRAM)
def test_a_command_is_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    arguments = cli.parse([word for word in words(line) if word != "..."])
    assert arguments.base or arguments.resume is not None


@pytest.mark.parametrize("line", [param for param in PROGRAM if "--base" in param.values[0]])
def test_a_command_with_configs_has_no_faults(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "lun.local.colours" in line:
        show_colours(monkeypatch)
    monkeypatch.chdir(ROOT)
    assert run([word for word in words(line) if word not in ("-t", "...")] + ["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "line"), [pair for pair in COMMANDS if pair[1].split()[0] == "bash" or "=" in pair[1]]
)
def test_a_script_that_is_named_is_there(name: str, line: str) -> None:
    for word in shlex.split(line):
        if word.startswith("scripts/"):
            assert (ROOT / word).is_file()


@pytest.mark.parametrize("path", READMES, ids=str)
def test_a_link_leads_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text("utf-8")):
        assert (path.parent / target).exists(), target


def show_colours(monkeypatch: pytest.MonkeyPatch) -> type:
    """The dataset of lun's README, importable under the name that its command uses."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "lun/README.md").read_text("utf-8"), flags=re.DOTALL)
    module = types.ModuleType("lun.local.colours")
    exec(compile(code, "lun/README.md", "exec"), vars(module))
    monkeypatch.setitem(sys.modules, "lun.local", types.ModuleType("lun.local"))
    monkeypatch.setitem(sys.modules, "lun.local.colours", module)
    found: type = module.Colours
    return found


def test_the_example_of_a_dataset_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    keyed = Keyed(show_colours(monkeypatch)(size=4), seed=0)
    example = keyed[(9, 4)]
    assert example["caption"] == "red" and example["image"].shape == (4, 4, 3) and example["slot"] == 9
    assert torch.equal(example["image"], keyed.dataset.example(4, Draws(0, 9))["image"])
    assert torch.equal(keyed[(9, 4)]["image"], example["image"])


def test_short_names_of_configs_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["--base", "training-lightning", "emoji", "--check"]) == 0, capsys.readouterr().err


def test_the_first_readme_is_a_door(repo_root: Path) -> None:
    text = (repo_root / "README.md").read_text("utf-8")
    assert text.count("\n") <= 150
    assert "bash scripts/demo.sh" in text and "bash scripts/test.sh" in text
