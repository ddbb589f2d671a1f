"""Parse, act, and say how it ended."""

import sys

from ldm.errors import Fault
from lun.cli.command_parser import CommandParser
from lun.console.ending import reported


def run(argv=None):
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: greet(words), words)


def greet(words):
    parser = CommandParser(prog="python -m lun.local.greet")
    parser.add_argument("name")
    asked = parser.parse_args(words)
    if asked.name == "nobody":
        raise Fault("CFG08", "nobody cannot be greeted", fix="python -m lun.local.greet somebody")
    print(f"hello, {asked.name}")
    return 0
