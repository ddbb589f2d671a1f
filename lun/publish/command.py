"""The command: show what would go, and unless that was all, send it."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from ldm.errors import Fault
from lun.cli.command_parser import CommandParser
from lun.console import log as console
from lun.console.ending import reported

log = logging.getLogger(__name__)

_ABOUT = """exported weights and their card to a model of your own on the hub; nothing else ever goes there

private unless --public; --dry-run shows what would go and sends nothing"""


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says and return the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _publish(_parsed(words)), ["python -m lun.publish", *words])


def _parsed(words: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        prog="python -m lun.publish", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", metavar="RUN|FILE", help="a run (its newest export), or what lun.convert wrote")
    parser.add_argument("repository", metavar="ORG/NAME", help="the model on the hub, which is made")
    parser.add_argument("--public", action="store_true", help="everybody may see it; its card has to name a licence")
    parser.add_argument("--update", action="store_true", help="a new version of a model that is there already")
    parser.add_argument("--dry-run", action="store_true", help="show what would go, with sizes, and send nothing")
    return parser.parse_args(words)


def _publish(asked: argparse.Namespace) -> int:
    console.configure(None)
    from ldm.files.sniff import readable_size
    from lun.publish.hub_upload import require_name, send
    from lun.publish.publication import Publication

    if asked.public and asked.update:
        why = "a model that is there stays as visible as it is; the hub's own page changes that"
        raise Fault("CLI02", "--public has no effect beside --update", why=why, fix="leave out one of them")
    require_name(asked.repository)
    publication = Publication.of(asked.source)
    seen = "as visible as it is" if asked.update else "public" if asked.public else "private"
    log.info("publish  %s as %s, %s", publication.source, asked.repository, seen)
    for name, file in sorted(publication.files.items()):
        origin = "" if file.name in name else f": {file}"
        log.info("file     %s (%s)%s", name, readable_size(file.stat().st_size), origin)
    log.info("total    %s in %d files", readable_size(publication.size), len(publication.files))
    for remark in publication.remarks():
        log.info("note     %s", remark)
    if asked.dry_run:
        log.info("nothing was sent; without --dry-run it goes")
        return 0
    if asked.public and publication.lacks_a_licence:
        fix = "write `license: ID` in the place of its line `# license: ...`, and what else says FILL IN"
        raise Fault("MOD03", f"{publication.card} names no licence", where="--public", fix=fix)
    address = send(
        publication.files, asked.repository, not asked.public, asked.update, f"Weights of {publication.source.name}"
    )
    log.info("sent     %s (%s)", address, seen)
    return 0
