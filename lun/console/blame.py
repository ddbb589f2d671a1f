"""Whose an error is that is no `Fault`: the person's own code, what a library refuses, or a bug of ours."""

import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ldm.admission import DRAWER, PROJECT, granted
from ldm.errors import Fault

REFUSALS = frozenset({"MisconfigurationException"})
"""Exceptions, by name, with which libraries refuse what somebody wished; nothing is imported to know them."""

_IN_A_WORKER = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)


class Place(NamedTuple):
    """A line that an error came through; `module` is empty where it is not known."""

    module: str
    file: str
    line: int
    function: str


def fault_of(error: BaseException) -> Fault | None:
    """The `Fault` that an error amounts to, where it is no bug of ours: CFG09 in the person's code, or CFG08."""
    own = [place for place in _places(error) if _is_of((*PROJECT, *granted()), place.module)]
    if own and _is_of((DRAWER, *granted()), own[-1].module):
        return _in_own_code(error, own[-1])
    if type(error).__name__ in REFUSALS:
        return Fault("CFG08", f"Lightning refuses this configuration: {_summary(error)}", where=_where(error))
    return None


def _in_own_code(error: BaseException, place: Place) -> Fault:
    return Fault(
        "CFG09",
        f"your own code stopped the run: {_summary(error)}",
        where=f"{place.file}:{place.line}, in {place.function}",
        why=f"{place.module} raised it, or called what did; the traceback: LUN_DEBUG=1, or console.log of the run",
        fix="mend it there, and go on with -r RUN -t if the run had begun",
    )


def _places(error: BaseException) -> Iterator[Place]:
    """From the outermost call to where the error came up, in a loader's worker too."""
    for frame, line in traceback.walk_tb(error.__traceback__):
        code = frame.f_code
        yield Place(str(frame.f_globals.get("__name__", "")), code.co_filename, line, code.co_name)
    if "DataLoader worker" in str(error):  # its traceback comes as text
        for match in _IN_A_WORKER.finditer(str(error)):
            yield Place(_module_in(match["file"]), match["file"], int(match["line"]), match["function"])


def _module_in(file: str) -> str:
    known = (name for name, module in list(sys.modules.items()) if getattr(module, "__file__", None) == file)
    return next(known, "")


def _summary(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or ["no message"]
    if lines[0].startswith("Caught ") and len(lines) > 1:  # of a worker: the original comes last
        return lines[-1]
    return f"{type(error).__name__}: {lines[0]}"


def _where(error: BaseException) -> str:
    """The part of Lightning that refuses."""
    last = list(_places(error))[-1:]
    return f"{Path(last[0].file).stem} of Lightning" if last else ""


def _is_of(packages: tuple[str, ...], module: str) -> bool:
    return any(module == package or module.startswith(package + ".") for package in packages)
