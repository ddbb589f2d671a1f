"""Ranges of numbers that a search draws from: `1e-6..1e-4:log`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from ldm.errors import Fault

NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(:log)?")
LIKE_A_RANGE = re.compile(rf"{NUMBER}\.\..*|.*\.\.{NUMBER}(?::\w*)?")
"""Begins as a range does or ends as one: `1..b`, `a..3`, `1..2:lin`; no path such as `../data`."""


@dataclass(frozen=True)
class NumberRange:
    """From `low` to `high`, both included; whole numbers where both are whole, drawn by their logarithm if `log`."""

    low: int | float
    high: int | float
    log: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether only whole numbers are drawn."""
        return isinstance(self.low, int) and isinstance(self.high, int)


def range_of(text: str, where: str) -> NumberRange | None:
    """The range that a value says; None for any other value. Raises `Fault` CLI03 for what is nearly one."""
    text = text.strip()
    if not LIKE_A_RANGE.fullmatch(text):
        return None
    found = RANGE.fullmatch(text)
    if found is None:
        raise _refused(text, where, "a range is two numbers with .. between, and :log behind where it is logarithmic")
    ends = found.group(1, 2)
    whole = all(re.fullmatch(r"[-+]?\d+", end) for end in ends)
    low, high = (int(end) if whole else float(end) for end in ends)
    log = found.group(3) is not None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise _refused(text, where, "its first number is to be below its second, and both finite")
    if log and low <= 0:
        raise _refused(text, where, "there is no logarithm of 0 and below")
    return NumberRange(low, high, log)


def _refused(text: str, where: str, why: str) -> Fault:
    return Fault("CLI03", f"{text} is no range", where=where, why=why, fix="1e-6..1e-4:log, 0.1..0.5 or 4..64")
