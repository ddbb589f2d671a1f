"""How many CPU threads to compute with: what this process may use, not what happens to be idle.

The count decides the last bits of sums, so a run stores it and a resumed one takes it over.
"""

import logging
import os

import torch

from ldm.cpus import available_cpus
from ldm.errors import Fault
from ldm.operating_system import load_average

log = logging.getLogger(__name__)
CROWDED = 0.7  # of all cores, over the last minute; starting, or installing right before, takes less by itself


def _of_openmp() -> int | None:
    """The outermost level's threads; None where the environment does not say."""
    outermost = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(outermost) if outermost.isdecimal() and int(outermost) > 0 else None


def say_if_crowded() -> None:
    """Warn, before training on the CPU, that others keep its cores busy: threads that wait for each other do so at full
    speed, and a step of a small network takes several times as long with two of them as with one."""
    count, cores = torch.get_num_threads(), os.cpu_count() or 1
    busy = (load_average() or 0.0) / cores
    if count > 1 and busy > CROWDED and "LUN_THREADS" not in os.environ:
        fewer = max(1, int(count * (1 - busy)))
        what = f"{min(busy, 1):.0%} of the cores are busy with other work, and {count} threads wait for each other"
        log.info("note: %s; LUN_THREADS=%d in the environment may be faster", what, fewer)


def asked_threads() -> int | None:
    """What `LUN_THREADS` says; None where it says nothing. Raises `Fault` CLI04 for what is no number of threads."""
    text = os.environ.get("LUN_THREADS", "").strip()
    if text and not (text.isdecimal() and int(text) > 0):
        raise Fault(
            "CLI04",
            f"LUN_THREADS is {text!r} in the environment, which is no number of threads",
            where="environment variable LUN_THREADS",
            fix=f"export LUN_THREADS={available_cpus()}, or unset LUN_THREADS",
        )
    return int(text) if text else None


def settle_threads(stored: int | None) -> int:
    """Set torch's thread count: `LUN_THREADS`, else what the resumed run used, else `OMP_NUM_THREADS`, else the cores.

    Raises `Fault` CLI04 for a `LUN_THREADS` that is no number.
    torchrun sets `OMP_NUM_THREADS` to 1 where it starts several ranks, which would get in each other's way.
    """
    count = asked_threads() or stored or _of_openmp() or available_cpus()
    torch.set_num_threads(count)
    if stored and count != stored:
        log.info("note: %d CPU threads, the run used %d so far: sums may differ in their last bits", count, stored)
    return count
