"""How long a run is, in optimizer steps, and how often it validates: the only place where epochs become steps."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ldm.errors import Fault

NO_LIMIT = -1
FAR = 10**9
"""Steps that no schedule ends before."""


@dataclass(frozen=True)
class Length:
    """max_steps (-1: only a time limit ends the run), the steps between validations, and of two ends which is first."""

    max_steps: int
    val_every: int
    first_end: str = ""
    """In words; '' where there is one end alone."""


def steps_for_epochs(epochs: float, n: int, global_batch: int) -> int:
    """Steps in which every one of `n` examples is seen `epochs` times; the last batch may run into the next epoch."""
    return max(1, math.ceil(epochs * n / global_batch))


def settle_length(trainer: Mapping[str, Any], n: int, global_batch: int, has_time_limit: bool = False) -> Length:
    """Read `max_steps`, `max_epochs` and `val_check_interval` of `lightning.trainer` for `n` training examples."""
    known_length(trainer, has_time_limit)
    steps, epochs = trainer.get("max_steps"), trainer.get("max_epochs")
    limits = {}
    if steps is not None and steps >= 0:
        limits[f"max_steps {steps}"] = steps
    if epochs is not None and epochs >= 0:
        limits[f"max_epochs {epochs}"] = steps_for_epochs(epochs, n, global_batch)
    ends = sorted(limits, key=lambda said: limits[said])
    epoch = steps_for_epochs(1, n, global_batch)
    every = _val_every(trainer.get("val_check_interval"), epoch)
    return Length(min(limits.values(), default=NO_LIMIT), every, ", before ".join(ends) if len(ends) > 1 else "")


def known_length(trainer: Mapping[str, Any], has_time_limit: bool) -> int:
    """The steps of a run as far as they are known without its pictures: `FAR` where it counts epochs, -1 without end.

    Raises `Fault` CFG03 where nothing says how long to train.
    """
    steps, epochs = trainer.get("max_steps"), trainer.get("max_epochs")
    if steps is not None and steps >= 0:
        return int(steps)
    if epochs is not None and epochs >= 0:
        return FAR
    if has_time_limit:
        return NO_LIMIT
    raise Fault(
        "CFG03",
        "nothing says how long to train",
        where="lightning.trainer",
        why="neither max_steps nor max_epochs nor a time limit is set",
        fix="--max_steps 10000    (or --max_epochs 10, or --time-limit 8:00)",
    )


def _val_every(interval: int | float | None, epoch: int) -> int:
    if interval is None:
        return min(2000, epoch)
    if isinstance(interval, float):
        return max(1, math.ceil(interval * epoch))
    return interval
