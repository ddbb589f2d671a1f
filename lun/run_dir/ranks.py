"""Which process this is, before Lightning knows: launchers say it in the environment."""

import os

from ldm.errors import Fault

_NAMED_BY_LAUNCHERS = ("RANK", "SLURM_PROCID", "LOCAL_RANK")


def process_rank() -> int:
    """The rank among all processes, 0 for a process that nobody started as another one.

    torchrun sets RANK and SLURM its own; Lightning's own launcher sets only LOCAL_RANK, beside NODE_RANK on several
    machines, where it is enough to know that it is not the first. Raises `Fault` CLI04 for what is no number.
    """
    if os.environ.get("NODE_RANK", "0") not in ("", "0") and "RANK" not in os.environ:
        return max(1, _number("LOCAL_RANK"))
    return next((_number(name) for name in _NAMED_BY_LAUNCHERS if os.environ.get(name)), 0)


def _number(name: str) -> int:
    text = os.environ.get(name) or "0"
    if not text.strip().isdecimal():
        raise Fault(
            "CLI04",
            f"{name} is {text!r} in the environment, which is no rank",
            where=f"environment variable {name}",
            why="a launcher sets it to the number of this process, from 0 on",
            fix=f"unset {name}",
        )
    return int(text)
