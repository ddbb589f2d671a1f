"""A trial in a process of its own."""

import signal
from pathlib import Path

import pytest

from lun.run_dir.directory import VARIABLE
from lun.sweep import running

CHILD = """
import os, signal, sys
told = open(sys.argv[1], "w")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
print(*sys.argv[2:], os.environ.get("LUN_JOB"), os.environ["LUN_RUN_DIRECTORY"], file=told, flush=True)
if "wait" in sys.argv:
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()
sys.exit(6)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose `main.py` is made up."""
    (tmp_path / "lun").mkdir()
    (tmp_path / "main.py").write_text(CHILD)
    monkeypatch.setattr(running.lun, "__file__", str(tmp_path / "lun/__init__.py"))
    monkeypatch.setenv("LUN_JOB", "mine")
    return tmp_path


def test_it_gets_the_words_and_its_place_and_its_exit_code_comes_back(package: Path) -> None:
    assert running.launched([str(package / "told"), "a b", "-t"], {VARIABLE: "there"}) == 6
    assert (package / "told").read_text() == "a b -t None there\n"


def test_a_signal_reaches_it_once_and_the_handlers_come_back(package: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert running.launched([str(package / "told"), "wait"], {VARIABLE: "there"}) == 143
    assert signal.getsignal(signal.SIGTERM) is before
