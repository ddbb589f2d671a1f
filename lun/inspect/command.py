"""`python -m lun.inspect DIR [--base YAML ...]`: look at a data set before training on it."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ldm.errors import Fault
from lun.cli.command_parser import CommandParser
from lun.cli.user_code import admit_user_code
from lun.console import fault_report
from lun.console import log as console
from lun.console.ending import reported
from lun.data.index.missing_folder import folder_given_by, require_folder
from lun.inspect.given import Given, has_split, read_given
from lun.run_dir.claim import claim_folder, writing_into

if TYPE_CHECKING:
    from lun.data.index.missing_data import Unusable
    from lun.inspect.over_all import Inspected
    from lun.inspect.statistics import DatasetFacts
    from lun.inspect.view import DatasetView

COMMAND = "python -m lun.inspect"
VALIDATION = "validation"
REPORTS = ("report.html", "report.json", "contact.png", "rejected.csv", "sets.json", "duplicates.csv")

_ABOUT = """what a data set is, what was left out of it and why, and exactly what the model will see

without --html, --png and --json all of them are written, and rejected.csv always"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code, that of training on the same data set."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _inspect(_parsed(words)), [COMMAND, *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(prog=COMMAND, description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", nargs="?", help="the data set; without it, that of the configs")
    parser.add_argument("-b", "--base", nargs="+", default=[], metavar="YAML", help="configs whose data section counts")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings, as for main.py")
    parser.add_argument("--allow", metavar="MODULE", action="append", default=[], help="code of yours")
    parser.add_argument("--split", default="train", choices=("train", "validation", "test", "predict"))
    parser.add_argument(
        "--duplicates",
        default="few",
        choices=("few", "all"),
        help="few: among 3,000 pictures of each set; all: among all of all sets, listed in duplicates.csv",
    )
    parser.add_argument("--html", action="store_true", help="write report.html, one file with pictures inside")
    parser.add_argument("--png", action="store_true", help="write contact.png")
    parser.add_argument("--json", action="store_true", help="write report.json")
    parser.add_argument("-o", "--output", metavar="DIR", help="where to write (logs/data/<time>_<name>)")
    return parser.parse_args(words)


def _inspect(asked: argparse.Namespace) -> int:
    console.configure(None)
    admit_user_code(asked.allow)
    given = read_given(asked.folder, asked.base, asked.set, asked.split)
    names = [one.set_name for one in given.sets() if one.set_name]
    folder = _folder(asked.output, "sets" if names else asked.folder or given.name, names)
    selection_log = logging.getLogger("lun.data.index.selection")
    selection_log.setLevel(logging.WARNING)  # the table says it in its own words
    try:
        looks = [(one, *_look(one)) for one in given.sets()]
        if asked.output is None:  # not before there is something to write
            folder = claim_folder(folder, "-o")
        with writing_into(folder, "-o"):
            seen = [_inspected(asked, *look, folder / (look[0].set_name or "")) for look in looks]
            _log_over_all(asked, given, seen, folder)
    finally:
        selection_log.setLevel(logging.NOTSET)
    return next((one.code for one in seen if one.code), 0)


def _kinds(asked: argparse.Namespace) -> set[str]:
    return {name for name in ("html", "png", "json") if getattr(asked, name)} or {"html", "png", "json"}


def _inspected(
    asked: argparse.Namespace, given: Given, data: DatasetView | None, refused: Unusable | None, folder: Path
) -> Inspected:
    from lun.inspect.over_all import Inspected

    if given.set_name:
        print(f"set       {given.set_name}")
    folder.mkdir(parents=True, exist_ok=True)
    facts = _report(given, data, refused, folder, _kinds(asked))
    if refused is None:
        return Inspected(given, data, facts, 0)
    fault_report.show([refused])
    return Inspected(given, data, facts, fault_report.exit_code(refused))


def _log_over_all(asked: argparse.Namespace, given: Given, seen: list[Inspected], folder: Path) -> None:
    """What is to be said of all sets together, and of validation beside them."""
    from lun.inspect.duplicates import FILE, duplicates_of, held_out_copies
    from lun.inspect.over_all import OverAll, counts_of, lines_of, rows_of, write_over_all

    views = {one.given.name: one.data for one in seen if one.data is not None}
    rows, mixing = rows_of(seen, given) if len(seen) > 1 else ([], [])
    held_out = _held_out(asked)
    found = OverAll(rows, mixing)
    if held_out is not None:
        copies = held_out_copies(views, held_out)
        found = replace(found, held_out=len(held_out), held_out_copies=copies)
        if asked.duplicates != "all" and not all(view.has_files for view in (held_out, *views.values())):
            print(f"note: pictures of packed sets are compared with {VALIDATION} by --duplicates all")
    if asked.duplicates == "all":
        everything = duplicates_of(views if held_out is None else {**views, VALIDATION: held_out})
        everything.write(folder / FILE)
        copies, alike = everything.copies_across(VALIDATION), everything.alike_across(VALIDATION)
        found = replace(found, duplicates=counts_of(everything), held_out_copies=copies, held_out_alike=alike)
    if len(seen) > 1:
        write_over_all(found, folder, _kinds(asked))
    for line in lines_of(found, folder):
        print(line)


def _held_out(asked: argparse.Namespace) -> DatasetView | None:
    """The validation set of the configs beside which training is looked at; None where there is none to be read."""
    if asked.split != "train" or asked.folder is not None or not has_split(asked.base, asked.set, VALIDATION):
        return None
    given = read_given(None, asked.base, asked.set, VALIDATION)
    try:
        return given.without_captions().build()
    except Fault as fault:
        print(f"note: {VALIDATION} cannot be looked at: {fault.what}")
        return None


def _folder(output: str | None, source: str, sets: Sequence[str]) -> Path:
    """Where to write; raises `Fault` CLI04 rather than write over an earlier report."""
    if output is None:
        name = Path(source).absolute().name
        return Path("logs") / "data" / f"{datetime.now():%Y-%m-%dT%H-%M-%S}_{name}"
    folder = Path(output)
    places = (folder, *(folder / name for name in sets))
    if any((place / name).exists() for place in places for name in REPORTS):
        raise Fault(
            "CLI04", f"{folder} holds a report already", where="-o", fix="-o ANOTHER_DIR, or delete the old one"
        )
    return folder


def _look(given: Given) -> tuple[DatasetView | None, Unusable | None]:
    """The data set, where it can be looked at, and what training would refuse it for."""
    with folder_given_by("" if given.folder is None else COMMAND, given.place):
        return _looked_at(given)


def _looked_at(given: Given) -> tuple[DatasetView | None, Unusable | None]:
    require_folder(given.recipe, given.place)
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


def _report(
    given: Given, data: DatasetView | None, refused: Unusable | None, folder: Path, kinds: set[str]
) -> DatasetFacts | None:
    from lun.inspect.rejected import rejected_rows, unused_rows, write_rejected
    from lun.inspect.report_files import write_report

    if data is not None:
        facts, lines = write_report(given, data, folder, kinds)
        print("\n".join(lines))
        return facts
    if refused is not None:
        count = write_rejected(
            folder / "rejected.csv",
            [*rejected_rows(refused.selection), *unused_rows(refused.selection.contents.unread)],
        )
        print(f"rejected  {folder / 'rejected.csv'} ({count:,} rows)")
    return None
