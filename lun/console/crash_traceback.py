"""Where a process leaves what it was doing when a library ends it: SIGSEGV, SIGABRT of a damaged heap and the like."""

import faulthandler
from typing import IO

STDERR = 2
_asked = False


def show_crashes() -> None:
    """Print the Python traceback of each thread at such an end. Where `PYTHONFAULTHANDLER` did, that stays as it is."""
    global _asked
    if not faulthandler.is_enabled():
        _asked = True
        faulthandler.enable(STDERR)


def write_crashes_into(file: IO[str] | None) -> None:
    """From now on into `file`, which has to stay open; None: on stderr again. Nothing without `show_crashes` before."""
    if _asked:
        faulthandler.enable(STDERR if file is None else file)
