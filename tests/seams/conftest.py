"""Seams, tried from outside: a module of one's own in the drawer `lun/local`, and nothing edited in ldm or lun."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support.runs import TINY, make_pictures

ROOT = Path(__file__).parents[2]


@pytest.fixture
def drawer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a module or package of this folder into the drawer of a new working directory, as `lun.local.NAME`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LUN_THREADS", "1")
    place = tmp_path / "lun" / "local"
    place.mkdir(parents=True)

    def put(name: str) -> None:
        package = Path(__file__).with_name(name)
        if package.is_dir():
            shutil.copytree(package, place / name)
        else:
            shutil.copy(package.with_suffix(".py"), place)

    return put


@pytest.fixture
def tiny(tmp_path: Path) -> Callable[..., str]:
    """Writes the smallest run's config with other parameters of the model and gives its path."""

    def write(**params: object) -> str:
        config = yaml.safe_load((ROOT / "tests" / "fixtures" / "tiny.yaml").read_text("utf-8"))
        config["model"]["params"] |= params
        config["data"]["params"]["train"]["params"]["data_root"] = str(make_pictures(tmp_path / "pictures", 4))
        file = tmp_path / "own.yaml"
        file.write_text(yaml.safe_dump(config), "utf-8")
        return str(file)

    return write


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("pictures"), 5)


@pytest.fixture
def lun(tmp_path: Path, pictures: Path, drawer: Callable[[str], None]) -> Callable[..., int]:
    """`lun(source, *words) -> exit code`: the tiny program with `source` as the module `lun.local.mine`."""
    from lun.trainer import run

    def start(source: str, *words: str) -> int:
        (tmp_path / "lun" / "local" / "mine.py").write_text(source, "utf-8")
        base = ["--base", str(TINY), "--logdir", str(tmp_path / "logs"), "--data_root", str(pictures)]
        short = ["lightning.trainer.max_steps=2"]
        return run(["-t", *words] if "-r" in words else [*base, "-t", *short, *words])

    return start
