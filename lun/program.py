"""What the program is called: `python main.py` in a checkout, `lun-train` where a wheel was installed."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from ldm.shell import quoted

CHECKOUT, WHEEL = "python main.py", "lun-train"
_COMMAND = re.compile(r"\bpython (main\.py|-m lun\b)")


def as_started(text: str) -> str:
    """A message whose commands can be pasted where the program was started: with its Python, as it was written."""
    if Path(sys.argv[0]).stem == WHEEL:
        return _COMMAND.sub(_with(_python()), text.replace(CHECKOUT, WHEEL))
    return _COMMAND.sub(_with(_python(), sys.argv[0]), text) if _started_here() else text


def _started_here() -> bool:
    """Whether this process is one of our commands, and not a program that uses them."""
    return Path(sys.argv[0]).name == "main.py" or any(word.startswith("lun.") for word in sys.orig_argv[1:3])


def _python() -> str:
    """This environment's Python, by the word that a person typed for it."""
    first = sys.orig_argv[0] if sys.orig_argv else ""
    return first if Path(first).name.startswith("python") else sys.executable


def _with(python: str, script: str = "main.py") -> Callable[[re.Match[str]], str]:
    script = script if Path(script).name == "main.py" else "main.py"
    return lambda match: f"{quoted(python)} {quoted(script) if match[1] == 'main.py' else match[1]}"
