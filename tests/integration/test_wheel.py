"""What `pip install .` gives: a program of its own, with everything that a checkout has to train with."""

import os
import re
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
    for name in ("ldm", "lun", "configs", "docs"):
        shutil.copytree(repo_root / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "local"))
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
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
    assert {name for name in code if not name.startswith("lun/local/")} <= contents
    assert {"ldm/modules/encoders/data/clip-merges.txt.gz", "ldm/ema/lerp.c"} <= contents


def test_the_wheel_holds_each_page_that_a_message_names(repo_root: Path, contents: set[str]) -> None:
    sources = [path.read_text("utf-8") for name in ("ldm", "lun") for path in (repo_root / name).rglob("*.py")]
    pages = {page for text in sources for page in re.findall(r"(?<![\w./\\-])(?:docs|configs|lun)/[\w/-]+\.md\b", text)}
    assert {"docs/amd.md", "docs/loggers.md", "configs/README.md", "lun/README.md"} <= pages
    assert {f"lun/{page.removeprefix('lun/')}" for page in pages} - contents == set()
    assert [page for page in pages if not (repo_root / page).is_file()] == []


def test_the_wheel_holds_nothing_of_the_users_own(contents: set[str]) -> None:
    assert [name for name in contents if "local/" in name] == []
    assert {name.split("/")[0] for name in contents if "dist-info" not in name} == {"ldm", "lun"}


def test_the_wheel_brings_the_commands_and_says_that_it_is_typed(wheel: Path, contents: set[str]) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("entry_points.txt")]
        brought = archive.read(name).decode().splitlines()
    assert {"lun-train = lun.cli.entry:train", "lun-sample = lun.sample.__main__:main"} <= set(brought)
    assert {"ldm/py.typed", "lun/py.typed"} <= contents


def test_importing_the_packages_takes_no_time_and_no_torch(repo_root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], cwd=repo_root, capture_output=True, text=True, check=True)
    seconds, torch = done.stdout.split()
    assert float(seconds) < 0.05 and torch == "False"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_in_a_clean_environment_the_commands_train_the_demo_draw_with_it_and_look_at_its_pictures(
    wheel: Path, tmp_path: Path
) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=True)
    install = [place / "bin/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel]
    subprocess.run(install, check=True, capture_output=True)
    # the libraries of this environment, but not its own lun: a .pth file does not follow the ones that it leads to
    (own,) = (place / "lib").glob("python*/site-packages")
    (own / "libraries.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    (tmp_path / "empty").mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def start(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        command = [place / "bin" / name, *words]
        return subprocess.run(command, cwd=tmp_path / "empty", env=environment, capture_output=True, text=True)

    assert start("lun-train", "--version").stdout.startswith("lun 0.")
    assert start("lun-train", "--help").stdout.startswith(f"usage: {place}/bin/lun-train [-b YAML ...]")
    trained = start("lun-train", "--demo", "--max_steps", "2", "--accelerator", "cpu")
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "empty/logs/latest/checkpoints/last.ckpt").is_file()
    assert {path.name for path in (tmp_path / "empty").iterdir()} == {"logs"}
    drawn = start("lun-sample", "logs/latest", "fox, red background", "--steps", "2", "-o", "fox")
    assert drawn.returncode == 0 and list((tmp_path / "empty/fox").glob("*.png")), drawn.stderr
    assert start("lun-convert", "--help").stdout.startswith(f"usage: {place}/bin/lun-convert IN OUT")
    assert "168" in start("lun-inspect", "--base", "emoji").stdout
