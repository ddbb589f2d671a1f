"""`python -m lun.inspect DIR [--base YAML ...]`: look at a data set before training on it."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from lun.cli.command_parser import CommandParser
from lun.cli.user_code import admit_user_code
from lun.console import fault_report
from lun.console import log as console
from lun.console.ending import reported
from lun.inspect.given import Given, read_given
from lun.run_dir.claim import claim_folder, writing_into

if TYPE_CHECKING:
    from lun.data.index.missing_data import Unusable
    from lun.inspect.view import DatasetView

_ABOUT = """what a data set is, what was left out of it and why, and exactly what the model will see

without --html, --png and --json all of them are written, and rejected.csv always"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code, that of training on the same data set."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _inspect(_parsed(words)), words)


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m lun.inspect", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the data set; without it, that of the configs")
    parser.add_argument("-b", "--base", nargs="+", default=[], metavar="YAML", help="configs whose data section counts")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings, as for main.py")
    parser.add_argument("--allow", metavar="MODULE", action="append", default=[], help="code of yours")
    parser.add_argument("--split", default="train", choices=("train", "validation", "test", "predict"))
    parser.add_argument("--html", action="store_true", help="write report.html, one file with pictures inside")
    parser.add_argument("--png", action="store_true", help="write contact.png")
    parser.add_argument("--json", action="store_true", help="write report.json")
    parser.add_argument("-o", "--output", metavar="DIR", help="where to write (logs/data/<time>_<name>)")
    return parser.parse_args(words)


def _inspect(asked: argparse.Namespace) -> int:
    console.configure(None)
    admit_user_code(asked.allow)
    given = read_given(asked.folder, asked.base, asked.set, asked.split)
    codes = [_inspect_one(asked, one) for one in given.sets()]
    return next((code for code in codes if code), 0)


def _inspect_one(asked: argparse.Namespace, given: Given) -> int:
    output = str(Path(asked.output, given.set_name)) if asked.output and given.set_name else asked.output
    folder = _folder(output, asked.folder or given.name)
    if given.set_name:
        print(f"set       {given.set_name}")
    kinds = {name for name in ("html", "png", "json") if getattr(asked, name)} or {"html", "png", "json"}
    teller = logging.getLogger("lun.data.index.selection")
    teller.setLevel(logging.WARNING)  # the table says it in its own words
    try:
        data, refused = _look(given)
        if asked.output is None:  # not before there is something to write
            folder = claim_folder(folder, "-o")
        with writing_into(folder, "-o"):
            return _report(given, data, refused, folder, kinds)
    finally:
        teller.setLevel(logging.NOTSET)


def _folder(output: str | None, source: str) -> Path:
    """Where to write; raises `Fault` CLI04 rather than write over an earlier report."""
    if output is None:
        name = Path(source).absolute().name
        return Path("logs") / "data" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}_{name}"
    folder = Path(output)
    if any((folder / name).exists() for name in ("report.html", "report.json", "contact.png", "rejected.csv")):
        raise Fault(
            "CLI04", f"{folder} holds a report already", where="-o", fix="-o ANOTHER_DIR, or delete the old one"
        )
    return folder


def _look(given: Given) -> tuple[DatasetView | None, Unusable | None]:
    """The data set, where it can be looked at, and what training would refuse it for."""
    # This brings torch and Pillow along; whatever is wrong with the command line was reported before.
    from lun.data.index.missing_data import Unusable

    try:
        try:
            return given.build(), None
        except Unusable as fault:
            if fault.id != "DAT04":
                raise
            return given.without_captions().build(), fault
    except Unusable as fault:
        return None, fault
    except Fault as fault:
        raise _of_this_command(fault) from fault


def _report(given: Given, data: DatasetView | None, refused: Unusable | None, folder: Path, kinds: set[str]) -> int:
    from lun.inspect.rejected import rejected_rows, write_rejected
    from lun.inspect.report_files import write_report

    if data is not None:
        for line in write_report(given, data, folder, kinds):
            print(line)
    elif refused is not None:
        count = write_rejected(folder / "rejected.csv", rejected_rows(refused.selection))
        print(f"rejected  {folder / 'rejected.csv'} ({count:,} rows)")
    if refused is None:
        return 0
    fault_report.show([refused])
    return fault_report.exit_code(refused)


def _of_this_command(fault: Fault) -> Fault:
    """The fault in the words of this command line, which has no --data_root."""
    fault.where = "DIR" if fault.where == "--data_root" else fault.where
    fault.fix = fault.fix.replace("--data_root ", "python -m lun.inspect ")
    return fault
