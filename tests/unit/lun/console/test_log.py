"""What reaches the console and its file."""

import ast
import io
import logging
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import pytest

from ldm import shell
from lun import program
from lun.console import crash_traceback
from lun.console import log as console
from lun.console.log import NOISE, configure, forget, warning_counts, warning_summary

ours = logging.getLogger("lun.somewhere")


@pytest.fixture(autouse=True)
def fresh():
    forget()
    yield
    forget()


def test_the_console_shows_the_message_alone_and_the_file_has_a_time_before_it(tmp_path, capsys):
    configure(tmp_path, 0)
    ours.info("step %d", 5)
    assert capsys.readouterr().out == "step 5\n"
    line = (tmp_path / "console.log").read_text()
    assert line[:2] == "20" and line[10] == " " and line.endswith("step 5\n")


def test_what_was_said_before_there_was_a_run_directory_is_in_its_file_too(tmp_path, capsys):
    configure(None, 0)
    ours.info("the plan")
    configure(tmp_path, 0)
    ours.info("training")
    assert capsys.readouterr().out == "the plan\ntraining\n"
    written = (tmp_path / "console.log").read_text()
    assert written.count("the plan") == written.count("training") == 1


def test_other_ranks_show_nothing_and_write_a_file_of_their_own(tmp_path, capsys):
    configure(tmp_path, 3)
    ours.warning("bad")
    assert capsys.readouterr().out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["console.rank3.log"]


def test_a_resumed_run_goes_on_in_the_same_file(tmp_path):
    for message in ("first start", "second start"):
        configure(tmp_path, 0)
        ours.info(message)
        forget()
    written = (tmp_path / "console.log").read_text()
    assert "first start" in written and "second start" in written


def test_after_a_run_loggers_have_the_level_that_they_had_before(monkeypatch):
    logger = logging.getLogger("ldm")
    monkeypatch.setattr(logger, "level", logging.ERROR)
    configure(None, 0)
    configure(None, 0)
    assert logger.level == logging.INFO
    forget()
    assert logger.level == logging.ERROR


def test_a_warning_is_swallowed_only_where_text_and_numbers_repeat(tmp_path, capsys):
    configure(tmp_path, 0)
    said = [f"warning[DSK01]: could not save last.ckpt\n  why:   trying again for {left} s" for left in (300, 290, 290)]
    for text in said:
        ours.warning(text)
    ours.warning("warning[DAT07]: captions are cut")
    assert capsys.readouterr().out == "\n".join([*said[:2], "warning[DAT07]: captions are cut", ""])
    assert warning_summary() == "4 warnings: DAT07, DSK01 x3"
    assert warning_counts() == {"DSK01": 3, "DAT07": 1}
    assert (tmp_path / "console.log").read_text().count("DSK01") == 3


def test_the_lines_below_a_warning_share_its_fate(capsys):
    configure(None, 0)
    for path in ("a.png", "b.png", "a.png"):
        ours.warning("warning[DAT06]: %s", path)
        ours.warning("  fix:   repair it")
    assert capsys.readouterr().out.splitlines() == [
        "warning[DAT06]: a.png",
        "  fix:   repair it",
        "warning[DAT06]: b.png",
        "  fix:   repair it",
    ]
    assert warning_counts() == {"DAT06": 3}


def test_notes_come_once_but_are_no_warnings(capsys):
    configure(None, 0)
    for _ in range(2):
        ours.info("note[PRF01]: slow loading")
    assert capsys.readouterr().out.count("PRF01") == 1
    assert warning_summary() == ""


def test_the_same_information_may_come_twice(capsys):
    configure(None, 0)
    for _ in range(2):
        ours.info("saved")
    assert capsys.readouterr().out == "saved\nsaved\n"


def test_a_warning_without_an_id_says_that_it_is_one_and_comes_once(capsys):
    configure(None, 0)
    for _ in range(2):
        ours.warning("odd")
    assert capsys.readouterr().out == "warning: odd\n"
    assert warning_summary() == '2 warnings: "odd" x2'


def test_warnings_that_differ_in_their_numbers_alone_are_counted_together(capsys):
    configure(None, 0)
    for step in (10, 20):
        ours.warning("loss became NaN at step %d; step left out", step)
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert warning_summary() == '2 warnings: "loss became NaN at step #; step left out" x2'


def test_a_note_is_not_called_a_warning(capsys):
    configure(None, 0)
    ours.warning("note: fewer threads may be faster")
    assert capsys.readouterr().out == "note: fewer threads may be faster\n"
    assert warning_summary() == ""


def test_no_message_of_ours_calls_itself_something_else_than_its_level():
    calls = [
        (path, node)
        for folder in ("lun", "ldm")
        for path in (Path(console.__file__).parents[2] / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args
        if node.func.attr in ("warning", "info", "error") and isinstance(node.args[0], ast.Constant)
    ]
    assert len(calls) > 80
    kinds = {"warning": ("note", "error"), "info": ("warning", "error"), "error": ("note", "warning")}
    wrong = [
        f"{path.name}:{node.lineno}"
        for path, node in calls
        if str(node.args[0].value).partition(":")[0].partition("[")[0] in kinds[node.func.attr]
    ]
    assert wrong == []


def test_python_warnings_of_libraries_are_heard_without_their_source_line(tmp_path, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        configure(tmp_path, 0)
        warnings.warn("an argument is old", UserWarning, stacklevel=1)
    assert capsys.readouterr().out == "warning: an argument is old\n"


def test_tracebacks_go_to_the_file_and_to_the_console_only_when_debugging(tmp_path, capsys, monkeypatch):
    configure(tmp_path, 0)
    for debug in ("0", "1"):
        monkeypatch.setenv("LUN_DEBUG", debug)
        try:
            raise ValueError("inner")
        except ValueError:
            ours.error("error[BUG]: outer", exc_info=True)
        assert ("Traceback" in capsys.readouterr().out) == (debug == "1")
    assert "ValueError: inner" in (tmp_path / "console.log").read_text()


def test_configuring_twice_says_nothing_twice(tmp_path, capsys):
    for _ in range(2):
        configure(tmp_path, 0)
    ours.info("once")
    assert capsys.readouterr().out == "once\n"
    assert (tmp_path / "console.log").read_text().count("once") == 1


@pytest.mark.parametrize("name", ["lightning", "lightning.pytorch", "some_library"])
def test_libraries_with_a_console_of_their_own_are_not_heard_twice(name, capsys, monkeypatch):
    library = logging.getLogger(name)
    monkeypatch.setattr(library, "handlers", [logging.StreamHandler(sys.stdout)])
    monkeypatch.setattr(library, "propagate", name != "lightning.pytorch")
    configure(None, 0)
    logging.getLogger(f"{name}.inner").warning("something matters")
    assert capsys.readouterr().out == "warning: something matters\n"


def test_a_handler_that_lightning_adds_when_it_is_imported_later_shows_nothing_twice(capsys, monkeypatch):
    library = logging.getLogger("lightning")
    monkeypatch.setattr(library, "handlers", [])
    configure(None, 0)
    library.addHandler(logging.StreamHandler(sys.stdout))
    logging.getLogger("lightning.pytorch").warning("once")
    assert capsys.readouterr().out == "warning: once\n"
    assert library.handlers == []


MESSAGES = (
    "💡 Tip: For seamless cloud logging and experiment tracking, try installing [litlogger](https://pypi.org/...)",
    "💡 Tip: For seamless cloud uploads and versioning, try installing [litmodels](https://pypi.org/project/litmodels/)",
    "GPU available: False, used: False",
    "TPU available: False, using: 0 TPU cores",
    "The 'train_dataloader' does not have many workers which may be a bottleneck. Consider increasing the value",
    "You're resuming from a checkpoint that ended before the epoch ended and your dataloader is not resumable.",
    "You have overridden `on_after_batch_transfer` in `LightningModule` but have passed in a `LightningDataModule`.",
    "`Trainer.fit` stopped: `max_steps=900` reached.",
)


@pytest.mark.parametrize("message", MESSAGES)
def test_noise_of_lightning_is_neither_shown_nor_counted_nor_written(message, tmp_path, capsys):
    configure(tmp_path, 0)
    logging.getLogger("lightning.pytorch.utilities.rank_zero").info(message)
    logging.getLogger("py.warnings").warning(message)
    assert capsys.readouterr().out == "" and warning_summary() == ""
    assert (tmp_path / "console.log").read_text() == ""


def test_a_gpu_that_lies_idle_is_no_noise(capsys):
    configure(None, 0)
    ours.warning("GPU available but not used. You can set it by doing `Trainer(accelerator='gpu')`.")
    assert "not used" in capsys.readouterr().out


def test_each_kind_of_noise_has_its_reason():
    assert all(noise.reason for noise in NOISE)
    assert all(a != b for a, b in pairwise(sorted(noise.pattern for noise in NOISE)))


class Screen(io.StringIO):
    encoding = "ascii"

    def isatty(self):
        return True


@pytest.mark.parametrize("no_colour", [False, True])
def test_colours_are_for_terminals_that_want_them(no_colour, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_colour:
        monkeypatch.setenv("NO_COLOR", "1")
    screen = Screen()
    monkeypatch.setattr(console.sys, "stdout", screen)
    configure(None, 0)
    ours.warning("warning[DAT06]: samples → there")
    assert ("\033[33m" in screen.getvalue()) == (not no_colour)
    assert "samples ? there" in screen.getvalue()


def test_naming_this_module_imports_the_standard_library_alone():
    ours = {"lun.program": program, "lun.console.crash_traceback": crash_traceback, "ldm.shell": shell}
    trees = [ast.parse(Path(module.__file__).read_text()) for module in (console, *ours.values())]
    imports = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in imports if isinstance(node, ast.ImportFrom)}
    assert "logging" in names and {name.partition(".")[0] for name in names - ours.keys()} <= sys.stdlib_module_names


def test_names_do_not_reach_the_terminal_with_control_characters(capsys):
    configure(None, 0)
    ours.warning("control/%s is no command", "\x1b[2Jx\x9b\x07")
    assert capsys.readouterr().out == "warning: control/?[2Jx?? is no command\n"


class Closed(io.StringIO):
    def write(self, text):
        raise BrokenPipeError(32, "Broken pipe")


def test_nobody_reading_any_more_ends_nothing(tmp_path, monkeypatch, capsys):
    configure(tmp_path, 0)
    monkeypatch.setattr(console.sys, "stdout", Closed())
    ours.info("step 5")
    assert capsys.readouterr().err == ""
    assert "step 5" in (tmp_path / "console.log").read_text()
