import io

import pytest

from ldm.errors import Fault
from lun.console.fault_report import exit_code, exit_code_of, show


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("id", "code"),
    [
        ("CLI03", 2),
        ("CFG01", 2),
        ("RES02", 2),
        ("TRN02", 2),
        ("DAT02", 3),
        ("MOD06", 4),
        ("DEV01", 5),
        ("TRN01", 6),
        ("DEP01", 7),
        ("DSK01", 8),
        ("BUG", 70),
    ],
)
def test_the_letters_of_an_id_decide_the_exit_code(id, code):
    assert exit_code(Fault(id, "x")) == code


def test_the_first_of_several_faults_decides():
    assert exit_code_of([Fault("DAT01", "x"), Fault("CFG01", "y")]) == 3
    assert exit_code_of([]) == 0


def test_each_fault_is_printed_to_standard_error(capsys):
    show([Fault("CFG01", "one", fix="do this"), Fault("CFG02", "two")])
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "error[CFG01]: one\n  fix:   do this\nerror[CFG02]: two\n"


def test_a_terminal_gets_colour(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    show([Fault("CFG01", "one")], stream=stream)
    assert stream.getvalue() == "\x1b[31merror[CFG01]\x1b[0m: one\n"


def test_a_terminal_that_wants_no_colour_gets_none(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    show([Fault("CFG01", "one")], kind="warning", stream=stream)
    assert stream.getvalue() == "warning[CFG01]: one\n"
