"""Rows of measurements with the machine that they were taken on, as JSON and Markdown.

python tests/bench/report.py TITLE=FILE.json ... > bench.md
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PACKAGES = ("torch", "lightning", "diffusers", "transformers")


class Row(NamedTuple):
    """One measurement: `ratios` to others of the same run, which is what machines agree on."""

    name: str
    value: float
    unit: str
    ratios: Mapping[str, float]


def fingerprint() -> dict[str, Any]:
    """What the numbers depend on: processor, memory, accelerator, versions, commit."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "accelerator": _told("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "none",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "commit": _told("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"),
    }


def table(title: str, rows: Sequence[Row]) -> str:
    """A Markdown table."""
    over = list(rows[0].ratios)
    lines = [f"## {title}\n", "| | " + " | ".join([rows[0].unit, *over]) + " |", "|---" * (len(over) + 2) + "|"]
    lines += [
        f"| {row.name} | {row.value:.2f} | " + " | ".join(f"{row.ratios[name]:.2f}" for name in over) + " |"
        for row in rows
    ]
    return "\n".join([*lines, ""])


def _processor() -> str:
    names = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _lines(file: str) -> list[str]:
    return Path(file).read_text().splitlines() if Path(file).is_file() else []


def _told(*words: str) -> str:
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main() -> None:
    machine: dict[str, Any] = {}
    parts = []
    for word in sys.argv[1:]:
        title, _, file = word.partition("=")
        told = json.loads(Path(file).read_text())
        machine = told["machine"]
        parts.append(table(title, [Row(**row) for row in told["rows"]]))
    print("# Benchmarks\n")
    print("\n".join(f"- {name}: {value}" for name, value in machine.items()), end="\n\n")
    print("\n".join(parts), end="")


if __name__ == "__main__":
    main()
