"""What scripts/installed.py says about an interpreter, and about one that pip has spoilt."""

import importlib.util
import sys
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def installed(repo_root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("installed", repo_root / "scripts" / "installed.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("version", ["1.13.1", "2.8.0+cu126", "2.9.0a0+gitabc", "2.9.0rc1", "2.9.0.dev20250901"])
def test_a_torch_before_2_9_is_not_enough(installed: ModuleType, version: str) -> None:
    assert installed.OLDER_THAN_2_9.match(version)


@pytest.mark.parametrize("version", ["2.9.0", "2.9.1+cpu", "2.10.0a0+b558", "2.13.0+rocm7.2", "3.0", "10.1.0"])
def test_a_torch_from_2_9_on_is_enough(installed: ModuleType, version: str) -> None:
    assert not installed.OLDER_THAN_2_9.match(version)


def test_the_torch_that_runs_these_tests_is_reported(installed: ModuleType) -> None:
    version, kind = installed.torch().split()
    assert version == metadata.version("torch") and kind in ("cpu", "cuda", "rocm")


def test_the_base_interpreter_is_reported(installed: ModuleType) -> None:
    version, path = installed.python().split(" ", 1)
    assert version == f"{sys.version_info.major}.{sys.version_info.minor}" and Path(path).exists()


def test_a_sound_environment_has_no_complaint(installed: ModuleType) -> None:
    assert installed.complaint(metadata.version("torch")) == ""


def test_a_torch_that_was_replaced_is_a_fault(installed: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert installed.main(["check", "2.9.9"]) == 7
    assert "error[DEP01]: torch 2.9.9 was replaced by" in capsys.readouterr().err


def test_a_torchvision_that_breaks_on_import_is_a_fault(
    installed: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision" / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms is missing')")
    (tmp_path / "torchvision-0.28.0.dist-info").mkdir()
    (tmp_path / "torchvision-0.28.0.dist-info" / "METADATA").write_text("Name: torchvision\nVersion: 0.28.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = installed.torchvision_complaint("2.13.0+cpu")
    assert text.splitlines()[0] == (
        "error[DEP01]: torchvision 0.28.0 does not fit torch 2.13.0+cpu and breaks transformers"
    )
    assert "operator torchvision::nms is missing" in text and "pip uninstall -y torchvision" in text
