"""The line that installs a missing package fits the Python that misses it."""

import shlex
import sys
from pathlib import Path

import pytest

from ldm import missing_packages
from ldm.missing_packages import BUILDS, TORCH_INDEX, install_line, torch_line


def test_it_is_for_this_very_python_and_holds_to_the_tested_versions(repo_root: Path) -> None:
    assert shlex.split(install_line("bitsandbytes", "PIL")) == [
        *(sys.executable, "-m", "pip", "install", "-c", str(repo_root / "constraints.txt")),
        *("bitsandbytes", "pillow"),
    ]


def test_paths_with_spaces_are_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/my envs/a/bin/python")
    assert install_line("schedulefree").startswith("'/my envs/a/bin/python' -m pip install ")


def test_a_wheel_has_no_file_of_versions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(missing_packages, "PROJECT", tmp_path)
    assert shlex.split(install_line("pyarrow"))[1:] == ["-m", "pip", "install", "pyarrow"]


def test_torch_is_left_to_the_script_that_knows_the_machine(repo_root: Path) -> None:
    words = shlex.split(install_line("lightning", "torch"))
    assert words == ["bash", str(repo_root / "scripts" / "setup.sh"), "--reinstall-torch"]


def test_in_a_container_it_is_the_image_that_is_built_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_KIND", "rocm")
    assert install_line("bitsandbytes").startswith("docker/start.sh rocm --build ")


def test_in_a_checkout_torch_comes_anew_by_the_script_for_whichever_gpus() -> None:
    assert torch_line() == "bash scripts/setup.sh --reinstall-torch"
    assert torch_line("rocm") == "LUN_TORCH=rocm bash scripts/setup.sh --reinstall-torch"


@pytest.mark.parametrize("kind", BUILDS)
def test_a_wheel_has_no_script_and_pip_takes_the_build_that_the_script_would(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, repo_root: Path
) -> None:
    script = (repo_root / "scripts" / "setup.sh").read_text("utf-8")
    assert f"torch_index={TORCH_INDEX}\n" in script and BUILDS[kind].replace(TORCH_INDEX, "$torch_index") in script
    monkeypatch.setattr(missing_packages, "PROJECT", tmp_path)
    assert torch_line(kind).endswith(f" -m pip install torch --index-url {BUILDS[kind]}")
    assert torch_line().endswith(" -m pip install torch")


def test_in_a_container_torch_comes_with_the_image_for_those_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LUN_KIND", "cpu")
    assert torch_line("cuda").startswith("docker/start.sh cuda --build ")
    assert torch_line().startswith("docker/start.sh cpu --build ")
