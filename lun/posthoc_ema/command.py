"""`python -m lun.posthoc_ema inspect|plan|reconstruct|sweep|verify|export`: parse, act, and say how it ended."""

import argparse
import os
import sys
from collections.abc import Sequence

from lun.console import log
from lun.console.ending import reported
from lun.posthoc_ema.arguments import parse
from lun.posthoc_ema.snapshot_files import snapshot_files


def run(argv: Sequence[str] | None = None) -> int:
    """Do what the command line says (`sys.argv` by default) and return the exit code; nothing is raised."""
    words = sys.argv[1:] if argv is None else list(argv)
    return reported(lambda: _act(words), words)


def _act(words: list[str]) -> int:
    try:
        arguments = parse(words or ["--help"])
    except SystemExit:  # argparse has printed its help
        return 0
    log.configure(None)
    try:
        _command(arguments)
    except BrokenPipeError:  # whoever reads has seen enough, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
