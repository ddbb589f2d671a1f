"""How many CPUs this process may use: not how many the machine has, nor how many happen to be idle."""

import math
from pathlib import Path

from ldm.operating_system import usable_cpus

CGROUPS = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """CPUs by affinity, cut down to the control group's CPU quota (a container's `--cpus`), at least 1."""
    return max(1, math.ceil(min(usable_cpus(), cpu_quota(CGROUPS))))


def cpu_quota(root: Path) -> float:
    """CPUs that the control group grants: version 2's `cpu.max`, else version 1's two files; infinite if unlimited."""
    try:
        if (root / "cpu.max").exists():
            limit, period = (root / "cpu.max").read_text().split()[:2]
        else:
            limit = (root / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        return math.inf if limit in ("max", "-1") else int(limit) / int(period)
    except (OSError, ValueError):  # no control groups here: nothing is limited by them
        return math.inf
