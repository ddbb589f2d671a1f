"""Which metrics share a plot, and the data that a page draws them from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from lun.report.curves import MetricCurve

LOSSES = re.compile(r"(train|val|test)/[^/]*loss[^/]*")
LOSS, RATE = "Loss", "Learning rate"
DIGITS = 6
ORDER = (r"Loss$", r".*loss", r"(train|val|test)\b", r"(?!Learning|perf|mem)", r"Learning", r"perf", r"mem")


@dataclass(frozen=True)
class ChartGroup:
    """One plot: its title and its metrics; `same` names those whose values another's curve shows already."""

    title: str
    names: list[str] = field(default_factory=list)
    same: dict[str, list[str]] = field(default_factory=dict)


def chart_groups(curves: Mapping[str, MetricCurve]) -> list[ChartGroup]:
    """The plots in the order in which they matter: losses, what else is learned, rates, speed, memory."""
    groups: dict[str, ChartGroup] = {}
    for name, curve in curves.items():
        title = title_of(name)
        group = groups.setdefault(title, ChartGroup(title))
        twin = next((other for other in group.names if curves[other] == curve), None)
        if twin is None:
            group.names.append(name)
        else:
            group.same.setdefault(twin, []).append(name)
    return sorted(
        groups.values(), key=lambda group: next(n for n, one in enumerate(ORDER) if re.match(one, group.title))
    )


def title_of(name: str) -> str:
    """The plot of a metric: that of its losses, of its folder, or its own where units differ."""
    if LOSSES.fullmatch(name):
        return LOSS
    if re.match(r"lr(\b|_|-)", name):
        return RATE
    folder = name.rpartition("/")[0]
    return name if folder in ("", "perf") else folder


def chart_data(groups: Sequence[ChartGroup], curves: Mapping[str, MetricCurve]) -> list[dict[str, Any]]:
    """Plots as plain values: each curve by its label, steps and values of `DIGITS` digits; rates are never smoothed."""
    return [
        {
            "title": group.title,
            "exact": group.title == RATE,
            "lines": [_line(name, group.same.get(name, []), curves[name]) for name in group.names],
        }
        for group in groups
    ]


def _line(name: str, same: Sequence[str], curve: MetricCurve) -> dict[str, Any]:
    values = [None if value is None else float(f"{value:.{DIGITS}g}") for value in curve.values]
    return {"label": " = ".join([name, *same]), "steps": curve.steps, "values": values}
