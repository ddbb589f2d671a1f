"""A small model in one file, and the converter's messages."""

from collections.abc import Callable
from pathlib import Path

import pytest
from safetensors.torch import save_file
from support.small import single_file

from lun.convert.command import run


@pytest.fixture(scope="session")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Stable Diffusion 1.x."""
    path = tmp_path_factory.mktemp("in") / "in.safetensors"
    save_file(single_file("sd1"), path)
    return path


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """`refused(exit code, fault, *line)` -> the message."""

    def check(code: int, fault: str, *line: str | Path) -> str:
        assert run([str(word) for word in line]) == code
        message = capsys.readouterr().err
        assert f"error[{fault}]" in message
        return message

    return check
