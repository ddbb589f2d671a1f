"""The command: read WHAT, write what it comes to as a configuration with comments, say what has no equal."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from ldm.errors import Fault
from ldm.files.replacing import replace_text
from ldm.shell import quoted
from lun.cli.command_parser import CommandParser
from lun.console import log as console
from lun.console.ending import reported
from lun.migrate.draft import UNKNOWN, Draft
from lun.migrate.recognise_foreign import KNOWN, read_foreign
from lun.migrate.runs import translunar

log = logging.getLogger(__name__)

_ABOUT = f"another trainer's settings as a configuration of this one\n\nit reads {KNOWN}"


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _migrate(_parsed(words)), ["python -m lun.migrate", *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m lun.migrate", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = (
        "a file, or a command line in quotes; nothing in it is run; several files of translunar are one configuration"
    )
    parser.add_argument("what", metavar="WHAT", nargs="+", help=what)
    parser.add_argument("-o", "--output", metavar="DIR", default="migrated", help="where to write: a folder, or X.yaml")
    return parser.parse_args(words)


def _migrate(asked: argparse.Namespace) -> int:
    console.configure(None)
    (first, *others) = asked.what
    source, draft = ("translunar-diffusion", translunar.read(asked.what)) if others else read_foreign(first)
    out = Path(asked.output)
    if out.suffix not in (".yaml", ".yml"):
        out /= "run.yaml" if draft.is_whole else "sets.yaml"
    if out.exists():
        raise Fault("CLI04", f"{out} is there already", where="-o", fix=f"-o ANOTHER, or rm {quoted(out)}")
    out.parent.mkdir(parents=True, exist_ok=True)
    start = quoted("python", "main.py", "--base", out, *draft.words)
    replace_text(
        out, draft.text([f"From {source}. What it would do: {start}", f"To train: {start} -t"] if draft.extends else [])
    )
    log.info("wrote    %s: from %s", out, source)
    _say(draft)
    log.info("next     %s", start if draft.is_whole else f"python -m lun.inspect --base {quoted(out)}")
    return 0


def _say(draft: Draft) -> None:
    """What a person has to look at; all of it stands in the file as well."""
    for line in (one for several in draft.comments.values() for one in several):
        log.warning("warning[CFG08]: another meaning: %s", line)
    for line in draft.notes["none"]:
        log.warning("warning[CFG08]: without a counterpart: %s", line)
    for line in draft.notes[UNKNOWN]:
        log.warning("warning[CFG08]: unknown, and not read: %s", line)
    if further := len(draft.notes["idle"]) + len(draft.notes["same"]):
        log.info("         %d further settings need nothing here, or are said in another way: in the file", further)
