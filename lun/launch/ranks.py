"""Which process this is, before Lightning knows: launchers say it in the environment."""

import os

_NAMED_BY_LAUNCHERS = ("RANK", "SLURM_PROCID", "LOCAL_RANK")


def process_rank() -> int:
    """The rank among all processes, 0 for a process that nobody started as another one.

    torchrun sets RANK and SLURM its own; Lightning's own launcher sets only LOCAL_RANK, beside NODE_RANK on several
    machines, where it is enough to know that it is not the first.
    """
    if os.environ.get("NODE_RANK", "0") not in ("", "0") and "RANK" not in os.environ:
        return max(1, int(os.environ.get("LOCAL_RANK") or 0))
    told = (os.environ.get(name) for name in _NAMED_BY_LAUNCHERS)
    return next((int(rank) for rank in told if rank), 0)
