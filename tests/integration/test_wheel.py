"""What `pip install .` gives: a program of its own, with everything that a checkout has to train with."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

IMPORTS = """
import sys, time
began = time.process_time()
import lun, ldm
print(time.process_time() - began, "torch" in sys.modules)
"""


@pytest.fixture(scope="module")
def wheel(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the project, because a build leaves folders behind; a drawer of the user's is in it."""
    copy, dist = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("dist")
    for name in ("ldm", "lun", "configs"):
        shutil.copytree(repo_root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "local"))
    for name in ("main.py", "setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy(repo_root / name, copy / name)
    (copy / "lun" / "local").mkdir()
    (copy / "lun" / "local" / "secret_sorter.py").write_text("")
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(dist)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=copy, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_the_wheel_holds_every_config_and_the_demos_data(repo_root: Path, contents: set[str]) -> None:
    shipped = {path.relative_to(repo_root).as_posix() for path in (repo_root / "configs").rglob("*") if path.is_file()}
    assert {f"lun/{name}" for name in shipped} <= contents


def test_the_wheel_holds_every_module_the_vocabulary_and_the_c_source(repo_root: Path, contents: set[str]) -> None:
    code = {
        path.relative_to(repo_root).as_posix() for name in ("ldm", "lun") for path in (repo_root / name).rglob("*.py")
    }
    assert {name for name in code if not name.startswith("lun/local/")} | {"main.py"} <= contents
    assert {"ldm/modules/encoders/data/clip-merges.txt.gz", "ldm/ema/lerp.c"} <= contents


def test_the_wheel_holds_nothing_of_the_users_own(contents: set[str]) -> None:
    assert [name for name in contents if "local/" in name] == []
    assert {name.split("/")[0] for name in contents if "dist-info" not in name} == {"ldm", "lun", "main.py"}


def test_the_wheel_brings_the_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        assert "lun-train = lun.trainer:run" in archive.read(name).decode()


def test_importing_the_packages_takes_no_time_and_no_torch(repo_root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=repo_root, capture_output=True, text=True, check=True)
    seconds, torch = done.stdout.split()
    assert float(seconds) < 0.05 and torch == "False"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_in_a_clean_environment_the_command_trains_the_demo(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    install = [place / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    # the libraries of this environment, but not its own lun: a .pth file does not follow the ones that it leads to
    (own,) = (place / "lib").glob("python*/site-packages")
    (own / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    (tmp_path / "empty").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def start(*words: str) -> subprocess.CompletedProcess[str]:
        command = [place / "bin/lun-train", *words]
        return subprocess.run(command, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True)

    assert start("--version").stdout.startswith("lun 0.")
    assert start("--help").stdout.startswith("usage: lun-train [-b YAML ...]")
    trained = start("--base", "training-lightning", "emoji", "--max_steps", "2", "--accelerator", "cpu", "-t")
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "empty/logs/latest/checkpoints/last.ckpt").is_file()
