"""A command that is started with the wrong Python names the right one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lun.cli import entry
from lun.console import environment
from lun.console.early_signals import ended_by_signals

ROOT = Path(__file__).parents[4]
COMMANDS = ["main.py"] + sorted(
    ".".join(path.relative_to(ROOT).parent.parts) for path in (ROOT / "lun").rglob("__main__.py")
)
ARGUMENTS = {
    "lun.board": ["configs"],
    "lun.publish": ["configs", "org/name"],
    "lun.convert": ["configs", "out.safetensors", "--to", "ldm"],
    "lun.inspect": ["my pictures"],
    "lun.measure": ["docs/img", "--clip", "CLIP"],
    "lun.posthoc_ema": ["inspect", "SNAPSHOTS"],
}


def started_bare(words: list[str], environment: Path) -> subprocess.CompletedProcess[str]:
    """A start with `-S`, without which a Python does not find what is installed."""
    variables = {"PATH": os.environ["PATH"], "LUN_VENV": str(environment), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, "-S", *words], cwd=ROOT, env=variables, capture_output=True, text=True)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_python_without_packages_is_told_which_has_them(command: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    (tmp_path / "ema-00000010.safetensors").touch()  # what is not there would be told first
    words = [command] if command == "main.py" else ["-m", command]
    words += [word.replace("SNAPSHOTS", str(tmp_path)) for word in ARGUMENTS.get(command, ["--base", "emoji"])]
    answer = started_bare(words, tmp_path)
    assert answer.returncode == 7 and "Traceback" not in answer.stderr, answer.stderr
    assert answer.stderr.startswith("error[DEP01]: the package ")
    quoted = " ".join(words).replace("my pictures", "'my pictures'")
    assert f"fix:   {tmp_path}/bin/python -S {quoted}\n" in answer.stderr
    assert f"source {tmp_path}/bin/activate" in answer.stderr


def test_every_command_has_an_entry_of_this_kind() -> None:
    assert {"main.py", "lun.sample", "lun.convert", "lun.inspect", "lun.memory", "lun.data.cache"} < set(COMMANDS)
    for path in (ROOT / "main.py", *(ROOT / "lun").rglob("__main__.py")):
        assert re.search(r"from lun.cli.entry import (enter|train)\n", path.read_text("utf-8")), path


def test_where_there_is_no_environment_yet_it_is_made_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_VENV", str(tmp_path / "my env"))
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "lun.inspect", "a b"])
    assert (
        environment.how_to_get("yaml")
        == f"bash scripts/setup.sh && '{tmp_path}/my env/bin/python' -m lun.inspect 'a b'"
    )


def test_within_the_environment_the_package_itself_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_VENV", sys.prefix)
    assert environment.missing("yaml.nodes").fix.endswith(" pyyaml")


def test_a_python_that_is_too_old_is_refused_before_anything_is_imported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 4))
    with pytest.raises(SystemExit) as left:
        entry.enter("no.such.module")
    assert left.value.code == 7
    assert "error[DEP01]: Python 3." in capsys.readouterr().err


def test_a_module_of_ours_that_is_missing_is_a_fault_of_ours() -> None:
    with ended_by_signals(), pytest.raises(ModuleNotFoundError):
        entry.enter("lun.nothing")
