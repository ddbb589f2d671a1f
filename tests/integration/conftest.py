"""A folder of tiny captioned pictures, and the whole program on it in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.runs import TINY, make_pictures


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("pictures"), 11)


@pytest.fixture
def lun(tmp_path: Path, pictures: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """`lun(*arguments) -> exit code`, with `--logdir` and `--data_root` set, in an empty working directory."""
    from lun.trainer import run

    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setenv("LUN_THREADS", "1")  # two threads on a busy machine wait for each other most of the time

    def start(*arguments: str, base: bool = True, data: Path | None = pictures) -> int:
        line = list(arguments)
        if base:
            line = ["--base", str(TINY), "--logdir", str(tmp_path / "logs"), *line]
            line += ["--data_root", str(data)] if data else []
        return run(line)

    return start
