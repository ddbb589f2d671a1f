"""A process that a library ends says what it was doing."""

import faulthandler
import subprocess
import sys
from pathlib import Path

import pytest

from lun.cli import entry
from lun.console import crash_traceback, log

AT_THE_END = """
import faulthandler, pathlib, sys
from lun.console import crash_traceback, log
crash_traceback.show_crashes()
log.configure(pathlib.Path(sys.argv[1]), 1)
if sys.argv[2] == "afterwards":
    log.forget()
faulthandler._sigabrt()
"""


@pytest.mark.parametrize("when", ["in a run", "afterwards"])
def test_the_traceback_of_a_native_crash_is_in_the_log_of_the_rank(tmp_path: Path, when: str) -> None:
    program = [sys.executable, "-c", AT_THE_END, str(tmp_path), when]
    ended = subprocess.run(program, capture_output=True, text=True, cwd=Path(__file__).parents[4])
    written, printed = (tmp_path / "console.rank1.log").read_text(), ended.stderr
    there, elsewhere = (written, printed) if when == "in a run" else (printed, written)
    assert "Fatal Python error: Aborted" in there and 'File "<string>", line 8 in <module>' in there
    assert elsewhere == ""


def test_a_command_asks_for_it_and_what_python_was_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    enabled: list[object] = []
    monkeypatch.setattr(crash_traceback, "_asked", False)
    monkeypatch.setattr(faulthandler, "enable", enabled.append)
    monkeypatch.setattr(faulthandler, "is_enabled", lambda: True)
    monkeypatch.setattr("lun.console.early_signals.end_at_signals", dict)
    for wanted in ([], [crash_traceback.STDERR]):
        with pytest.raises(ModuleNotFoundError):
            entry.enter("lun.nothing")
        log.configure(None)
        log.forget()
        assert enabled[:1] == wanted
        monkeypatch.setattr(faulthandler, "is_enabled", lambda: False)
