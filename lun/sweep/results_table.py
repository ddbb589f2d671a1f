"""What came of a sweep: a table for a console, and the same as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ldm.errors import Fault
from ldm.files.replacing import replace_text
from ldm.shell import quoted
from lun.report.curves import Curves, read_curves
from lun.sweep.sweep_folder import SweepFolder
from lun.sweep.trials import Trial

WIDEST = 40


@dataclass(frozen=True)
class TrialResult:
    """One line: `best` at the step `at`, `last` at the end, both None where the metric was not logged."""

    trial: Trial
    state: str
    exit_code: int | None
    steps: int
    best: float | None
    at: int | None
    last: float | None
    run: str


def results(folder: SweepFolder, trials: Sequence[Trial], metric: str | None, maximize: bool) -> list[TrialResult]:
    """All trials, the best first, those without a value last, in the order in which they were asked for."""
    found = [_result(folder, trial, metric, maximize) for trial in trials]
    return sorted(found, key=lambda one: float("inf") if one.best is None else -one.best if maximize else one.best)


def logged_metrics(folder: SweepFolder, trials: Sequence[Trial]) -> list[str]:
    """The metrics that any run of the trials has logged."""
    runs = [run for trial in trials if (run := folder.run_of(trial))]
    return sorted({name for run in runs for name in read_curves(run.path).by_name})


def refuse_unlogged(folder: SweepFolder, trials: Sequence[Trial], metric: str) -> None:
    """Raise `Fault` CLI03 for a metric that no run of the trials has logged, with those that are near."""
    logged = logged_metrics(folder, trials)
    if metric in logged:
        return
    near = get_close_matches(metric, logged, 3) or logged[:8]
    why = f"they log {', '.join(near)}" if near else "they log nothing"
    fix = f"--metric {quoted(near[0])}" if near else "validate and log more often"
    raise Fault("CLI03", f"no run has logged {metric}", where="--metric", why=why, fix=fix)


def write_results(folder: SweepFolder, found: Sequence[TrialResult], metric: str | None) -> None:
    """`results.csv` and `results.json` in the folder. Raises OSError."""
    rows = [_row(one, metric) for one in found]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(key for row in rows for key in row)))
    writer.writeheader()
    writer.writerows(rows)
    replace_text(folder.path / "results.csv", text.getvalue())
    replace_text(folder.path / "results.json", json.dumps(rows, indent=1, ensure_ascii=False) + "\n")


def table(found: Sequence[TrialResult], metric: str | None) -> str:
    """The lines for a console."""
    rows = [{key: _short(value) for key, value in _row(one, metric).items() if key != "run"} for one in found]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    cells = [heads, *([row.get(head, "") for head in heads] for row in rows)]
    widths = [max(len(line[at]) for line in cells) for at in range(len(heads))]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in cells]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _result(folder: SweepFolder, trial: Trial, metric: str | None, maximize: bool) -> TrialResult:
    run = folder.run_of(trial)
    curves = read_curves(run.path) if run else Curves()
    record = run.record() if run else None
    curve = curves.by_name.get(metric or "")
    pairs = zip(curve.values, curve.steps, strict=True) if curve else ()
    points = [(value, step) for value, step in pairs if value is not None]
    best = (max if maximize else min)(points, key=lambda point: point[0], default=None)
    return TrialResult(
        trial,
        folder.state(trial),
        folder.exit_code(trial),
        max(curves.step or 0, record.steps if record else 0),
        best[0] if best else None,
        best[1] if best else None,
        points[-1][0] if points else None,
        str(run.path) if run else "",
    )


def _row(one: TrialResult, metric: str | None) -> dict[str, Any]:
    measured = {metric: one.best, "at step": one.at, "last": one.last} if metric else {}
    ended = {"state": one.state, "exit code": one.exit_code, "steps": one.steps, "run": one.run}
    return {**one.trial.values, **measured, **ended}


def _short(value: Any) -> str:
    if value is None:
        return "-"
    text = f"{value:.5g}" if isinstance(value, float) else str(value)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"
