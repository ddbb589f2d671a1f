"""What the program is called: `python main.py` in a checkout, `lun-train` where a wheel was installed."""

import sys
from pathlib import Path

CHECKOUT, WHEEL = "python main.py", "lun-train"


def as_started(text: str) -> str:
    """A message whose commands can be pasted where the program was started."""
    return text.replace(CHECKOUT, WHEEL) if Path(sys.argv[0]).stem == WHEEL else text
