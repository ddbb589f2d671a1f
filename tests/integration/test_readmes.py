"""Every command and example that a README shows works."""

import importlib
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import yaml
from support import bitsandbytes_stub
from support.machine import Machine
from support.radeon import Card

from ldm.diffusion.draws import Draws
from lun.data.keyed import Keyed
from lun.launch import cli
from lun.trainer import run

ROOT = Path(__file__).parents[2]
READMES = sorted(
    path
    for path in (*ROOT.rglob("README.md"), *ROOT.glob("docs/*.md"))
    if not {".venv", "logs"} & set(path.relative_to(ROOT).parts)
)
PLACEHOLDERS = {"DIR": "configs/demo/data/train", "CONFIGS": "configs/demo/emoji.yaml"}


def shell_lines(text: str) -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)
    return [line.split(" # ")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


COMMANDS = [
    (path.relative_to(ROOT).as_posix(), line) for path in READMES for line in shell_lines(path.read_text("utf-8"))
]
CONTAINERS = [line for _, line in COMMANDS if line.startswith(("docker/start.sh", "docker compose"))]
PROGRAM = [
    pytest.param(line[line.index("python main.py") :], id=f"{name}: {line}")
    for name, line in COMMANDS
    if line.startswith("python main.py") or (line in CONTAINERS and "python main.py" in line)
]
POWER = [line.removeprefix("sudo ") for _, line in COMMANDS if "scripts/amd-power.sh" in line]


OTHERS = {
    "lun.sample": "lun.sample.arguments",
    "lun.convert": "lun.convert.arguments",
    "lun.posthoc_ema": "lun.posthoc_ema.arguments",
}


@pytest.mark.parametrize(
    "line", [line for _, line in COMMANDS if line.startswith(tuple(f"python -m {name} " for name in OTHERS))]
)
def test_another_command_is_understood(line: str) -> None:
    given = shlex.split(line)
    importlib.import_module(OTHERS[given[2]]).parse(given[3:])


@pytest.mark.parametrize("line", [line for _, line in COMMANDS if line.startswith("python -m lun.memory ")])
def test_memory_can_be_asked_for_as_shown(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    bitsandbytes_stub.install(monkeypatch)
    assert run([*shlex.split(line)[3:], "--data_root", "configs/demo/data/train", "--check"]) == 0


def words(line: str) -> list[str]:
    return [PLACEHOLDERS.get(word, word) for word in shlex.split(line)[2:]]


@pytest.mark.parametrize("line", PROGRAM)
def test_a_command_is_understood(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    arguments = cli.parse([word for word in words(line) if word != "..."])
    assert arguments.base or arguments.resume is not None or arguments.doctor or arguments.list_presets


@pytest.mark.parametrize("line", [param for param in PROGRAM if "--base" in param.values[0]])
def test_a_command_with_configs_has_no_faults(
    line: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if "lun.local.colours" in line:
        show_colours(monkeypatch)
    bitsandbytes_stub.install(monkeypatch)
    monkeypatch.chdir(ROOT)
    assert run([word for word in words(line) if word not in ("-t", "...")] + ["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "line"), [pair for pair in COMMANDS if pair[1].split()[0] == "bash" or "=" in pair[1]]
)
def test_a_script_that_is_named_is_there(name: str, line: str) -> None:
    for word in shlex.split(line):
        if word.startswith("scripts/"):
            assert (ROOT / word).is_file()


@pytest.mark.parametrize("line", [line for line in CONTAINERS if line.startswith("docker/start.sh")])
def test_a_container_is_started_with_the_command_that_is_shown(line: str, tmp_path: Path) -> None:
    machine = Machine(ROOT, tmp_path).has("docker", "cuda", "rocm")
    options, _, command = line.partition(" -- ")
    wanted = [PLACEHOLDERS.get(word, word) for word in shlex.split(command)]
    given = [str(ROOT / PLACEHOLDERS[word]) if word in PLACEHOLDERS else word for word in shlex.split(options)[1:]]
    run = machine.printed(*given, *(["--", *wanted] if wanted else []))[-1]
    assert run[:2] == ["docker", "run"] and run[len(run) - len(wanted) :] == wanted


@pytest.mark.parametrize("line", [line for line in CONTAINERS if line.startswith("docker compose")])
def test_a_composed_container_is_one_of_the_file_that_is_named(line: str) -> None:
    given = shlex.split(line)
    file, profile = given[given.index("--file") + 1], given[given.index("--profile") + 1]
    service = given[given.index("--rm") + 1]
    assert profile in yaml.safe_load((ROOT / file).read_text("utf-8"))["services"][service]["profiles"]


def test_power_is_set_and_restored_by_the_commands_that_are_shown(tmp_path: Path) -> None:
    card = Card(tmp_path, 0)
    before = card.written
    assert POWER
    for line in POWER:
        environment = {"PATH": os.environ["PATH"], "LUN_SYSROOT": str(tmp_path)}
        done = subprocess.run(shlex.split(line), cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert card.written[0] == before[0] and card.written[2] == before[2]


def fragments() -> list[str]:
    """What the right column of the migration page puts behind a command."""
    rows = [line for line in (ROOT / "docs/migration.md").read_text("utf-8").splitlines() if line.startswith("| ")]
    cells = [re.split(r"(?<!\\)\|", row)[2].replace("\\|", "|") for row in rows]
    spans = [span for cell in cells for span in re.findall(r"`([^`]+)`", cell)]
    return [span for span in spans if span.startswith("-") or re.match(r"[a-z_.]+=", span)]


def test_the_options_of_other_trainers_have_the_counterparts_that_are_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    bitsandbytes_stub.install(monkeypatch)
    shown = fragments()
    assert len(shown) > 60
    for span in shown:
        cli.parse(written(span))
    plain = [span for span in shown if not span.startswith(("--base", "-r", "--data_root"))]
    commands = [shlex.split(span) for span in shown if span.startswith("--base")]
    commands += [["--base", "sd15", "buckets", "min-snr", *(word for span in plain for word in written(span))]]
    for words in commands:
        assert run([*words, "--data_root", "configs/demo/data/train", "--check"]) == 0, capsys.readouterr().err


def written(span: str) -> list[str]:
    """The words of one option; a setting is one word, whatever is in it."""
    return span.split() if span.startswith("-") else [span]


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
