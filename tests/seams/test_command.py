"""A command of one's own: a package with `run(argv)`, and an entry of one line."""

import runpy
import sys
from collections.abc import Callable

import pytest

from lun.cli.user_code import admit_user_code


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["somebody"], 0, "hello, somebody", ""),
        (["nobody"], 2, "", "nobody cannot be greeted"),
        ([], 2, "", "python -m lun.local.greet --help"),
    ],
)
def test_a_package_and_an_entry_are_a_command(
    drawer: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    out: str,
    err: str,
) -> None:
    drawer("greet")
    admit_user_code()
    monkeypatch.setattr(sys, "argv", ["greet", *words])
    monkeypatch.setattr("lun.console.early_signals.end_at_signals", dict)
    with pytest.raises(SystemExit) as left:
        runpy.run_module("lun.local.greet", run_name="__main__")
    said = capsys.readouterr()
    assert (left.value.code or 0) == code, said.err
    assert out in said.out and err in said.err
