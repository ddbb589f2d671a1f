"""Signals before a run can save."""

import importlib
import os
import signal

import pytest

from ldm.operating_system import STOPPING_SIGNALS
from lun.console.early_signals import ended_by_signals
from lun.console.ending import reported


@pytest.mark.parametrize("name", STOPPING_SIGNALS.values())
def test_a_signal_ends_a_program_by_its_exit_code_and_then_means_what_it_meant(name):
    number = getattr(signal, name)
    former = signal.getsignal(number)
    code = 130 if name == "SIGINT" else 143
    assert reported(lambda: os.kill(os.getpid(), number) or signal.pause(), []) == code
    assert signal.getsignal(number) == former


DEAF = """
import os, signal
try:
    os.kill(os.getpid(), signal.{name})
    for _ in range(1000):
        pass
except BaseException:
    pass  # as native code does that a library begins with, where it does not abort
"""


@pytest.mark.parametrize("name", STOPPING_SIGNALS.values())
def test_a_signal_ends_a_program_that_imports_a_library_which_drops_exceptions(name, tmp_path, monkeypatch):
    (tmp_path / "deaf.py").write_text(DEAF.format(name=name))
    monkeypatch.syspath_prepend(tmp_path)
    child = os.fork()
    if child == 0:
        with ended_by_signals():
            importlib.import_module("deaf")
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (130 if name == "SIGINT" else 143)


def test_a_program_that_nohup_made_deaf_to_its_terminal_stays_so():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)
