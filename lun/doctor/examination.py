"""The whole examination: look, judge, print, and the exit status."""

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from ldm.place import cache_root
from lun.cli.usage import version
from lun.doctor import look
from lun.doctor.finding import Finding, pasteable
from lun.doctor.hardware import examine_torch
from lun.doctor.packages import (
    examine_compiler,
    examine_packages,
    examine_python,
    examine_torchvision,
    examine_vocabulary,
)
from lun.doctor.places import examine_commit, examine_disk, examine_permissions, examine_shared_memory
from lun.program import with_pages
from lun.run_dir.run_json import program_commit

SETTINGS = (
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HSA_OVERRIDE_GFX_VERSION"),
    *("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"),
    *("LUN_THREADS", "OMP_NUM_THREADS", "HF_HUB_OFFLINE"),
)


def doctor(logdir: Path) -> int:
    """Print a line for each thing that training needs; 1 if any of them is FAIL, else 0."""
    findings = examine(logdir)
    print("\n".join(report(findings, look.own_names())))
    return exit_status(findings)


def examine(logdir: Path) -> list[Finding]:
    """Everything that is looked at, in the order in which a person would mend it."""
    return [
        examine_commit(program_commit(), version().split(" · ")[0].removeprefix("lun ")),
        Finding("OK", "system", look.system()),
        examine_python(sys.version_info[:2], platform.python_version(), look.in_environment()),
        *examine_torch(look.torch(), look.machine()),
        examine_torchvision(*look.torchvision()),
        *examine_packages(look.installed(), look.required(), look.pins()),
        examine_vocabulary(look.vocabulary()),
        examine_compiler(look.compiled()),
        examine_shared_memory(look.shared_memory()),
        examine_disk(look.free(logdir)),
        examine_permissions({"runs": look.writable(logdir), "caches": look.writable(cache_root())}),
        examine_settings({name: os.environ[name] for name in SETTINGS if name in os.environ}),
    ]


def examine_settings(given: dict[str, str]) -> Finding:
    """Environment variables that change what a GPU does."""
    return Finding("OK", "environment", " ".join(f"{name}={value}" for name, value in given.items()) or "nothing set")


def report(findings: Sequence[Finding], names: Iterable[str]) -> list[str]:
    """The lines to print, with nothing in them that is the user's own."""
    names = list(names)
    lines = [pasteable(with_pages(line), names) for finding in findings for line in finding.lines()]
    failed, warned = (sum(finding.level == level for finding in findings) for level in ("FAIL", "WARN"))
    return [
        *lines,
        f"{failed} FAIL, {warned} WARN; no names and no paths are in these lines, so paste them into a report",
    ]


def exit_status(findings: Sequence[Finding]) -> int:
    """1 if anything is FAIL, else 0."""
    return int(any(finding.level == "FAIL" for finding in findings))
