"""The program in a process of its own, and in this one, on a folder of tiny pictures."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.forks import Forks
from support.runs import TINY, make_pictures


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("pictures"), 11)


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory, repo_root: Path) -> Forks:
    return Forks(repo_root, {"LUN_CACHE": str(tmp_path_factory.mktemp("cache"))})


@pytest.fixture
def lun(tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`lun(*arguments) -> exit code` in this process, with `--logdir` and, unless it resumes, config and data set."""
    from lun.trainer import run

    monkeypatch.chdir(tmp_path)

    def start(*arguments: str, base: Path | None = TINY, data: Path | None = pictures) -> int:
        line = list(arguments)
        if "-r" not in line:
            line += ["--logdir", str(tmp_path / "logs")]
            line += ["--base", str(base)] if base else []
            line += ["--data_root", str(data)] if data else []
        return run(line)

    return start
