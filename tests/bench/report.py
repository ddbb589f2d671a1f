"""Rows of measurements with the machine that they were taken on, as JSON and Markdown."""

import importlib.metadata
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from program import ROOT

PACKAGES = ("torch", "lightning", "diffusers", "transformers")


class Row(NamedTuple):
    """One measurement; `beside` are further columns by their titles, ratios to others of the same run above all."""

    name: str
    value: float
    unit: str
    beside: Mapping[str, float]


def times_of(taken: Mapping[str, float], unit: str, *others: str) -> list[Row]:
    """A row for each, with its ratio to those of the others that were measured."""
    measured = [other for other in others if other in taken]
    return [
        Row(name, value, unit, {f"over {other}": value / taken[other] for other in measured})
        for name, value in taken.items()
    ]


def fingerprint() -> dict[str, Any]:
    """What the numbers depend on: processor, memory, accelerator, versions, commit, the load."""
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": int(os.environ.get("OMP_NUM_THREADS", 0)) or "all cores",
        "load": round(os.getloadavg()[0], 1),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "accelerator": _told("nvidia-smi", "--query-gpu=name", "--format=csv,noheader") or "none",
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in PACKAGES},
        "commit": _told("git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"),
    }


def shown(value: float) -> str:
    """Three digits or all that stand before the point."""
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 or size == 0 else f"{value:.2g}"


def table(rows: Sequence[Row]) -> str:
    """A Markdown table; a cell is empty where a row lacks that column."""
    columns = list(dict.fromkeys(column for row in rows for column in row.beside))
    lines = ["| | " + " | ".join([rows[0].unit, *columns]) + " |", "|---" * (len(columns) + 2) + "|"]
    for row in rows:
        cells = [shown(row.value), *(shown(row.beside[name]) if name in row.beside else "" for name in columns)]
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def present(name: str, rows: Sequence[Row], file: Path | None) -> None:
    """Print the rows of a measurement, and write them to a JSON file beside the machine that they were taken on."""
    print(table(rows))
    if file:
        told = {"measurement": name, "machine": fingerprint(), "rows": [row._asdict() for row in rows]}
        file.write_text(json.dumps(told, indent=1) + "\n")


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
