"""Printing faults, and the exit code that each means."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from ldm.errors import Fault
from lun.console.fault_flags import with_flags
from lun.console.log import CONTROL
from lun.program import as_started

OUR_FAULT = 70
_BY_LETTERS = {"CLI": 2, "CFG": 2, "RES": 2, "DAT": 3, "MOD": 4, "DEV": 5, "TRN": 6, "DEP": 7, "DSK": 8}
_BY_ID = {"TRN02": 2}
_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "note": "\x1b[36m"}
_PLAIN = "\x1b[0m"


def show(faults: Sequence[Fault], kind: str = "error", stream: TextIO | None = None) -> None:
    """Print each fault to `stream` (standard error), coloured on a terminal unless NO_COLOR is set."""
    stream = sys.stderr if stream is None else stream
    for fault in faults:
        text = CONTROL.sub("?", as_started(with_flags(fault.render(kind))))
        with suppress(OSError):  # nobody reads any more, and the exit code says it as well
            print(_coloured(text, kind) if _takes_colour(stream) else text, file=stream)


def exit_code(fault: Fault) -> int:
    """The exit code by the letters of the fault's id; 70, a fault of ours, for letters that mean nothing."""
    return _BY_ID.get(fault.id, _BY_LETTERS.get(fault.id[:3], OUR_FAULT))


def exit_code_of(faults: Sequence[Fault]) -> int:
    """The exit code of the first fault, 0 where there is none."""
    return exit_code(faults[0]) if faults else 0


def _takes_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _coloured(text: str, kind: str) -> str:
    head, colon, rest = text.partition(":")
    return f"{_COLOURS.get(kind, '')}{head}{_PLAIN}{colon}{rest}"
