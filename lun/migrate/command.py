"""The command: read FILE, write its sets as a layer of a configuration, say what has no counterpart."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from ldm.errors import Fault
from ldm.files.replacing import replace_text
from ldm.shell import quoted
from lun.cli.command_parser import CommandParser
from lun.console import log as console
from lun.console.ending import reported
from lun.migrate.recognise_foreign import KNOWN, read_foreign

log = logging.getLogger(__name__)

_ABOUT = f"the data sets of another trainer's file as data.params.train.sets\n\nit reads {KNOWN}"


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _migrate(_parsed(words)), ["python -m lun.migrate", *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m lun.migrate", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", metavar="FILE", help="the file; nothing in it is run")
    parser.add_argument("-o", "--output", metavar="YAML", default="sets.yaml", help="where to write (sets.yaml)")
    return parser.parse_args(words)


def _migrate(asked: argparse.Namespace) -> int:
    console.configure(None)
    source, found = read_foreign(Path(asked.file))
    layer, out = found.layer(), Path(asked.output)
    if out.exists():
        raise Fault("CLI04", f"{out} is there already", where="-o", fix=f"-o ANOTHER.yaml, or rm {quoted(out)}")
    replace_text(out, yaml.safe_dump(layer, sort_keys=False, allow_unicode=True, width=120))
    log.info("wrote    %s: %d sets of %s", out, len(found.sets), source)
    for line in found.unread:
        log.warning("warning[CFG08]: without a counterpart: %s", line)
    log.info("next     python -m lun.inspect --base %s", quoted(out))
    return 0
