"""Commands in messages are those that work where the program was started."""

import importlib
import logging
import re
import sys
from pathlib import Path

import pytest

from ldm.errors import Fault
from lun.cli.usage import usage
from lun.console import fault_report, log
from lun.program import as_started, installed_name, with_pages
from lun.trainer import run

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(".".join(path.relative_to(ROOT).parent.parts) for path in (ROOT / "lun").rglob("__main__.py"))


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["lun-train", "--check"])


def test_a_checkout_says_main_py() -> None:
    assert usage().startswith("usage: python main.py [-b YAML ...]")


def test_a_wheel_says_its_command_in_the_usage(wheel: None) -> None:
    assert usage().startswith("usage: lun-train [-b YAML ...]") and "main.py" not in usage()


def test_a_wheel_says_its_command_in_a_fault(wheel: None, capsys: pytest.CaptureFixture[str]) -> None:
    fault_report.show([Fault("RES01", "nothing to resume", fix="python main.py --base ...")])
    assert capsys.readouterr().err.endswith("  fix:   lun-train --base ...\n")


def test_a_wheel_says_its_command_in_what_is_logged(wheel: None, capsys: pytest.CaptureFixture[str]) -> None:
    log.configure(None)
    logging.getLogger("lun").info("next     python -m lun.inspect --base x")
    log.forget()
    assert capsys.readouterr().out == "next     lun-inspect --base x\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_an_installed_command_names_it_and_no_other_way_to_start(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = installed_name(f"-m {command}")
    monkeypatch.setattr("sys.argv", [name, "--help"])
    began: list[str] = []
    monkeypatch.setattr("lun.cli.entry.enter", began.append)
    beginning = importlib.import_module(f"{command}.__main__")
    monkeypatch.setattr(beginning, "enter", began.append)
    beginning.main()
    assert importlib.import_module(*began).run(["--help"]) == 0
    said = capsys.readouterr().out
    assert f"usage: {name}" in said and not re.search(r"python (-m lun|main)", said)


def test_where_a_wheel_is_started_by_its_python_training_is_named_by_its_script(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("lun.program._CHECKOUT", tmp_path)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "lun.sample", "x"])
    monkeypatch.setattr(sys, "executable", "/opt/venv/bin/python")
    assert as_started("python main.py -t; python -m lun.convert") == "/opt/venv/bin/lun-train -t; python -m lun.convert"


def test_the_list_of_presets_names_the_installed_command(wheel: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--list-presets"]) == 0
    assert "for example:  lun-train --base sd15" in capsys.readouterr().out


@pytest.mark.parametrize("page", ["docs/amd.md", "configs/README.md", "lun/sample/README.md"])
def test_a_wheel_names_a_page_where_it_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, page: str) -> None:
    monkeypatch.setattr("lun.program._CHECKOUT", tmp_path)
    monkeypatch.setattr("lun.program._PACKAGE", tmp_path / "lun")
    named = as_started(f"fix: {page}, there")
    assert named == f"fix: {tmp_path}/lun/{page.removeprefix('lun/')}, there"
    assert as_started(named) == named
    assert with_pages(page) == f"site-packages/lun/{page.removeprefix('lun/')}"


def test_a_checkout_names_a_page_as_it_is() -> None:
    assert as_started("see docs/amd.md") == "see docs/amd.md"
