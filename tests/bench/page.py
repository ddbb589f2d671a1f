"""The page of all measurements, from what they wrote: tables, goals, machine, and what has not been measured.

Each row shows what was measured now; where the same run measured another commit, its number stands beside it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from measurements import GOALS, MEASUREMENTS, Goal, Measurement
from report import shown

NOT_RUN = "not run"
Results = Mapping[str, Mapping[str, Any]]
"""{"now" or "before": {name of a measurement: {"machine": ..., "rows": [...]}}}"""
Rows = Mapping[str, Mapping[str, Any]]


def rows_of(results: Results, when: str, name: str) -> Rows:
    """{name of a row: row} of a measurement; nothing where it was not run."""
    return {row["name"]: row for row in results.get(when, {}).get(name, {}).get("rows", ())}


def number(row: Mapping[str, Any] | None, column: str) -> float | None:
    """The value of a row or of one of its further columns."""
    if row is None:
        return None
    found: float | None = row["value"] if not column else row["beside"].get(column)
    return found


def cell(row: Mapping[str, Any] | None, column: str) -> str:
    value = number(row, column)
    return "" if value is None else shown(value)


def section(measurement: Measurement, results: Results) -> str:
    """Title, settings and table of one measurement."""
    now, before = (rows_of(results, when, measurement.name) for when in ("now", "before"))
    some = [*now.values(), *before.values()]
    columns = list(dict.fromkeys(["", *(column for row in some for column in row["beside"])]))
    unit = some[0]["unit"] if some else "value"
    titles = [title for column in columns for title in _titles(column or unit, bool(before))]
    lines = [f"## {measurement.title}\n", measurement.about + "\n", "| | " + " | ".join(titles) + " |"]
    lines.append("|---" * (len(titles) + 1) + "|")
    for name in measurement.rows:
        cells = [text for column in columns for text in _cells(column, now, before, name)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, ""])


def _titles(column: str, both: bool) -> list[str]:
    return [column, f"before: {column}"] if both else [column]


def _cells(column: str, now: Rows, before: Rows, name: str) -> list[str]:
    rows = [now.get(name), before.get(name)] if before else [now.get(name)]
    return [cell(row, column) if row or column else NOT_RUN for row in rows]


def goal_line(goal: Goal, results: Results) -> str:
    """The goal, its limit, what was measured, and whether that is enough."""
    cells = []
    for when in ("now", "before") if results.get("before") else ("now",):
        value = number(rows_of(results, when, goal.measurement).get(goal.row), goal.column)
        verdict = NOT_RUN if value is None else f"{shown(value)}: {'met' if goal.met(value) else 'not met'}"
        cells.append(verdict)
    sign = ">=" if goal.at_least else "<="
    return f"| {goal.text} | {sign} {shown(goal.limit)} | " + " | ".join(cells) + " |"


def page(results: Results) -> str:
    """The whole page in Markdown."""
    both = bool(results.get("before"))
    head = [
        "# Benchmarks\n",
        "Written by `bash scripts/bench.sh cpu --publish`; numbers are ratios within one run wherever they can be.\n",
    ]
    goals = [
        "## Goals\n",
        "| | limit | measured |" + (" before |" if both else ""),
        "|---|---|---|" + ("---|" if both else ""),
    ]
    goals += [goal_line(goal, results) for goal in GOALS]
    sections = [section(measurement, results) for measurement in MEASUREMENTS]
    return "\n".join([*head, *_machines(results), "", *goals, "", *sections])


def _machines(results: Results) -> Sequence[str]:
    """What the first measurement said of its machine, and the commits and loads of all."""
    lines = []
    for when, measured in results.items():
        machines = [told["machine"] for told in measured.values()]
        if not machines:
            continue
        if when == "now":
            facts = {name: value for name, value in machines[0].items() if name not in ("load", "commit")}
            lines += [f"- {name}: {value}" for name, value in facts.items()]
        loads = [machine["load"] for machine in machines]
        commits = sorted({machine["commit"] for machine in machines})
        lines.append(f"- {when}: commit {', '.join(commits)}; load {min(loads)} to {max(loads)}")
    return lines
