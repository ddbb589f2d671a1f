"""Whose an error is: the deepest line of the program's or of the person's own decides."""

import sys
from types import ModuleType

import pytest

from lun.console.blame import fault_of

CODE = "def go(call=None):\n    if call:\n        call()\n    raise ValueError('what for')\n"


def module(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    made = ModuleType(name)
    made.__file__ = f"/somewhere/{name.rpartition('.')[2]}.py"
    exec(compile(CODE, made.__file__, "exec"), vars(made))
    monkeypatch.setitem(sys.modules, name, made)
    return made


def caught(call, *arguments) -> Exception:
    try:
        call(*arguments)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def test_an_error_in_ones_own_module_is_told_by_file_and_line(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, own, library = (module(monkeypatch, name) for name in ("lun.x", "lun.local.x", "numpy.x"))
    for chain in (own.go, lambda: own.go(library.go), lambda: ours.go(own.go)):
        fault = fault_of(caught(chain))
        assert fault is not None and fault.id == "CFG09" and fault.where.startswith("/somewhere/x.py:")
    assert fault_of(caught(own.go, ours.go)) is None
    assert fault_of(caught(ours.go, library.go)) is None


def test_an_error_in_a_loaders_worker_is_told_by_the_text_that_came_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module(monkeypatch, "lun.local.x")
    text = "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
    text += '  File "/somewhere/x.py", line 4, in example\n    raise ValueError\nValueError: no such picture\n'
    fault = fault_of(ValueError(text))
    assert fault is not None and fault.where == "/somewhere/x.py:4, in example"
    assert "ValueError: no such picture" in fault.what


def test_what_lightning_refuses_is_a_fault_of_the_configuration() -> None:
    from lightning.fabric.utilities.exceptions import MisconfigurationException

    fault = fault_of(MisconfigurationException("this and that do not go together"))
    assert fault is not None and fault.id == "CFG08" and "do not go together" in fault.what
