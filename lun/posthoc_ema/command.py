"""`python -m lun.posthoc_ema inspect|plan|reconstruct|sweep|verify|export`: parse, act, and say how it ended."""

import argparse
import sys
from collections.abc import Sequence

from lun.console import log
from lun.console.ending import reported
from lun.posthoc_ema.arguments import NAME, parse
from lun.posthoc_ema.snapshot_files import snapshot_files


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _act(words), [NAME, *words])


def _act(words: list[str]) -> int:
    arguments = parse(words or ["--help"])
    log.configure(None)
    _command(arguments)
    return 0


def _command(arguments: argparse.Namespace) -> None:
    if arguments.command in ("inspect", "reconstruct", "sweep"):
        snapshot_files(arguments.run)
    from lun.posthoc_ema import comparing, inspecting, reconstructing  # torch, which takes seconds

    {
        "inspect": inspecting.inspect,
        "plan": inspecting.plan,
        "reconstruct": reconstructing.reconstruct,
        "sweep": reconstructing.reconstruct,
        "verify": comparing.verify,
        "export": comparing.export,
    }[arguments.command](arguments)
