"""The command that predicts memory."""

from pathlib import Path

import pytest

from lun.memory.command import run

ROOT = Path(__file__).parents[2]


def test_the_command_tells_the_peak(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = str(ROOT / "tests/fixtures/tiny.yaml")
    assert run(["--base", tiny, "--precision", "bf16-mixed"]) == 0
    shown = capsys.readouterr().out
    assert [line.split()[0] for line in shown.splitlines()] == ["peak", "stays", "peaks", "average"]
    assert run(["--base", tiny, "model.params.nothing=1"]) == 2
    assert run(["data.params.batch_size=1"]) == 2
    assert "--base is needed" in capsys.readouterr().err
