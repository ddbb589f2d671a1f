"""Signals before a run can save."""

import os
import signal

import pytest

from lun.console.early_signals import NAMES, ended_by_signals
from lun.console.ending import reported


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_ends_a_program_by_its_exit_code_and_then_means_what_it_meant(name):
    number = getattr(signal, name)
    former = signal.getsignal(number)
    assert reported(lambda: os.kill(os.getpid(), number) or signal.pause(), []) == 143
    assert signal.getsignal(number) == former


def test_a_program_that_nohup_made_deaf_to_its_terminal_stays_so():
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_by_signals():
            assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, former)
