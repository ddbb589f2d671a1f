"""Which numbers a part of the objective can be made with, said where the part is declared and refused by name."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from ldm.errors import Fault


class Interval(NamedTuple):
    """Finite numbers from `least` to `most`; `beyond`: `least` itself is not among them."""

    least: float = -math.inf
    most: float = math.inf
    beyond: bool = False

    def holds(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            return False
        return (value > self.least if self.beyond else value >= self.least) and value <= self.most

    def __str__(self) -> str:
        least = "" if self.least == -math.inf else f" {'above' if self.beyond else 'from'} {self.least:g}"
        return f"a finite number{least}{'' if self.most == math.inf else f' to {self.most:g}'}"


FINITE = Interval()
POSITIVE = Interval(0, beyond=True)
FROM_ZERO = Interval(0)
FROM_ONE = Interval(1)
SHARE = Interval(0, 1)
Limits = Mapping[str, Interval]


class Limited:
    """A dataclass that refuses numbers out of its `limits` with `Fault` CFG03; None is no number and may stay."""

    limits: ClassVar[Limits] = {}

    def __post_init__(self) -> None:
        require_limits(type(self).__name__, self.limits, vars(self))


def require_limits(owner: str, limits: Limits, values: Mapping[str, Any]) -> None:
    """Raise `Fault` CFG03 for the first of `values` that is out of its range."""
    for name, interval in limits.items():
        value = values[name]
        if value is not None and not interval.holds(value):
            raise Fault("CFG03", f"{name} of {owner} cannot be {value!r}", why=f"it has to be {interval}")
