"""The runs below a directory, by their paths from there: two of one name in different folders are two."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lun.report.curves import Curves, glance
from lun.report.run_state import RunState, run_state
from lun.run_dir.directory import RunDirectory

DEEPEST = 5
"""Folders between the directory and a run."""
MOST = 2000
SEEN = 50_000
"""Entries of folders that are looked at."""


@dataclass(frozen=True)
class ListedRun:
    """One line of the list: a run by its path below the directory, with what a glance shows of it."""

    name: str
    state: RunState
    losses: dict[str, float]


def runs_below(root: Path) -> tuple[dict[str, Path], list[str]]:
    """Run directories by their paths from `root` on, and what was not looked at, in words.

    `root` itself may be one, and is then called by its name. Links are not followed.
    """
    if is_run(root):
        return {root.resolve().name: root}, []
    found: dict[str, Path] = {}
    budget = [SEEN]
    for path in _walk(root, DEEPEST, budget):
        if len(found) == MOST:
            return found, [f"runs past the first {MOST:,}"]
        found[path.relative_to(root).as_posix()] = path
    return found, [] if budget[0] > 0 else [f"folders past the first {SEEN:,} files"]


def is_run(path: Path) -> bool:
    """Whether it is a run directory: `configs/` beside `checkpoints/` or a `run.json`."""
    return (path / "configs").is_dir() and ((path / "checkpoints").exists() or (path / "run.json").is_file())


def _walk(folder: Path, deeper: int, budget: list[int]) -> Iterator[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name, reverse=True)
    except OSError:
        return
    for entry in entries:
        budget[0] -= 1
        if budget[0] <= 0:
            return
        if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
            continue
        path = folder / entry.name
        if is_run(path):
            yield path
        elif deeper:
            yield from _walk(path, deeper - 1, budget)


def listed(runs: dict[str, Path]) -> list[ListedRun]:
    """The runs with their states, those that said something last first."""
    lines = [_listed(name, path) for name, path in runs.items()]
    return sorted(lines, key=lambda one: (one.state.heard or 0.0, _started(one), one.name), reverse=True)


def _listed(name: str, path: Path) -> ListedRun:
    curves: Curves = glance(path)
    run = RunDirectory(path)
    state = run_state(run, run.record(), curves, False, time.time())
    newest = {metric: curve.finite[-1] for metric, curve in curves.by_name.items() if curve.finite}
    return ListedRun(name, state, {metric: newest[metric] for metric in ("train/loss", "val/loss") if metric in newest})


def _started(one: ListedRun) -> str:
    return one.state.record.started if one.state.record else ""
