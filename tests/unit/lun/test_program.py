"""Commands in messages are those that work where the program was started."""

import pytest

from ldm.errors import Fault
from lun.cli.usage import usage
from lun.console import fault_report


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/venv/bin/lun-train", "--check"])


def test_a_checkout_says_main_py() -> None:
    assert usage().startswith("usage: python main.py [-b YAML ...]")


def test_a_wheel_says_its_command_in_the_usage(wheel: None) -> None:
    assert usage().startswith("usage: lun-train [-b YAML ...]") and "main.py" not in usage()


def test_a_wheel_says_its_command_in_a_fault(wheel: None, capsys: pytest.CaptureFixture[str]) -> None:
    fault_report.show([Fault("RES01", "nothing to resume", fix="python main.py --base ...")])
    assert capsys.readouterr().err.endswith("  fix:   lun-train --base ...\n")
