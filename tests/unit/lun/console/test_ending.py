"""Faults become messages and exit codes; everything else is a bug of ours."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ldm.admission import grant, granted
from ldm.errors import Fault
from lun.console.ending import leave, reported
from lun.run_dir.directory import VARIABLE


@pytest.fixture(autouse=True)
def _nobodys_own_code() -> Iterator[None]:
    """The modules of tests are granted, as a person's own are; here they stand for the program."""
    before = granted()
    grant(())
    yield
    grant(before)


def raising(error: BaseException) -> int:
    raise error


def test_the_code_of_the_program_is_passed_on() -> None:
    assert reported(lambda: 143, []) == 143


def test_a_fault_is_told_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(lambda: raising(Fault("DAT01", "data folder not found: x", fix="pass another")), []) == 3
    told = capsys.readouterr()
    assert told.err == "error[DAT01]: data folder not found: x\n  fix:   pass another\n"
    assert told.out == ""


def test_several_faults_are_all_told(capsys: pytest.CaptureFixture[str]) -> None:
    faults = ExceptionGroup("", [Fault("CFG03", "one"), Fault("CFG04", "two")])
    assert reported(lambda: raising(faults), []) == 2
    assert capsys.readouterr().err == "error[CFG03]: one\nerror[CFG04]: two\n"


def test_a_reader_that_has_seen_enough_is_no_fault(capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(lambda: raising(BrokenPipeError(32, "Broken pipe")), []) == 0
    assert capsys.readouterr().err == ""


def test_a_name_that_no_file_can_have_is_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(lambda: raising(OSError(36, "File name too long", "x" * 300)), []) == 2
    assert "too long for the name of a file: 300 characters" in capsys.readouterr().err


def test_ctrl_c_before_training_is_130() -> None:
    assert reported(lambda: raising(KeyboardInterrupt()), []) == 130


def test_a_bug_is_70_and_leaves_what_a_report_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert reported(lambda: raising(KeyError("foo")), ["--base", "a.yaml"]) == 70
    assert "error[BUG]: unexpected KeyError: 'foo'" in capsys.readouterr().err
    crash = (tmp_path / "crash.txt").read_text()
    assert crash.startswith("--base a.yaml\n")
    assert "torch" in crash and "KeyError: 'foo'" in crash


def test_a_bug_before_there_is_a_run_directory_shows_its_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert reported(lambda: raising(ZeroDivisionError("x")), []) == 70
    assert "Traceback" in capsys.readouterr().out


def test_a_package_that_is_missing_is_named_with_what_installs_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert reported(lambda: raising(ModuleNotFoundError("No module named 'yaml'", name="yaml.nodes")), []) == 7
    assert capsys.readouterr().err.startswith("error[DEP01]: the package yaml is missing\n")


def test_a_module_of_our_own_that_is_missing_is_a_bug() -> None:
    assert reported(lambda: raising(ModuleNotFoundError("No module named 'lun.x'", name="lun.x")), []) == 70


@pytest.mark.parametrize(("code", "left"), [(2, []), (0, ["worker"])])
def test_a_failure_takes_along_the_loaders_workers_that_are_deaf_to_other_signals(
    monkeypatch: pytest.MonkeyPatch, code: int, left: list[str]
) -> None:
    alive = ["worker"]
    monkeypatch.setattr("multiprocessing.active_children", lambda: [SimpleNamespace(kill=alive.clear)])
    with pytest.raises(SystemExit) as ended:
        leave(code)
    assert (ended.value.code, alive) == (code, left)


def test_after_a_second_ctrl_c_even_the_end_of_python_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: list[tuple[float, int]] = []
    monkeypatch.setattr("lun.console.ending.end_within", lambda *bound: bounds.append(bound))
    for code in (0, 70, 130):
        with pytest.raises(SystemExit):
            leave(code)
    assert bounds == [(10.0, 130)]
