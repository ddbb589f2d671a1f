"""Where each command begins: with a Python that has what it needs, or with a line that names the one that has.

This file is read by Pythons that the program does not support and that have no packages, so it asks for neither.
"""

import importlib
import platform
import sys

from ldm.errors import Fault
from lun.console.environment import OURS, again_with_the_environment, missing

OLDEST = (3, 11)
MISSING_PACKAGE = 7  # the exit code of DEP01
INTERRUPTED = 130


def train() -> None:
    """Where `lun-train` begins."""
    enter("lun.trainer")


def enter(module: str) -> None:
    """Leave with the exit code of `run()` of `module`; with 7 and DEP01 where this Python cannot run it."""
    if sys.version_info[:2] < OLDEST:
        what = f"Python {platform.python_version()} is too old"
        _refuse(Fault("DEP01", what, why="3.11 to 3.13 are supported", fix=again_with_the_environment()))
    from lun.console.crash_traceback import show_crashes  # not before it is known that this Python is new enough
    from lun.console.early_signals import end_at_signals

    show_crashes()
    end_at_signals()
    try:
        program = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] in OURS:
            raise
        _refuse(missing(error.name or ""))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    from lun.console.ending import leave

    leave(program.run())


def _refuse(fault: Fault) -> None:
    print(fault.render(), file=sys.stderr)
    sys.exit(MISSING_PACKAGE)
