"""Several runs on one page: settings that differ, curves in one plot, the same prompt and seed in one row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lun.pages.document import document, fragment
from lun.report import run_page
from lun.report.chart_groups import LOSS, chart_data, chart_groups
from lun.report.curves import Curves, read_curves
from lun.report.sample_tiles import ROOM, SampledPrompt, SampleStrip, TileCache, sample_strip, strip_data
from lun.run_dir.config_changes import differing_settings, flat_settings, readable_settings
from lun.run_dir.directory import RunDirectory

LETTERS = "ABCDEFGH"
MOST = len(LETTERS)
COLOURS = ("#4f7ccf", "#d2574f", "#2f9467", "#b27a12", "#8a63c9", "#1f9aa8", "#c2559d", "#7d8a2e")
DASHES: tuple[list[int], ...] = ([], [8, 4], [2, 3], [10, 3, 2, 3])
ROWS = 300
ABSENT = "—"


@dataclass(frozen=True)
class ComparedRun:
    """One column: a run with the letter and colour that stand for it."""

    letter: str
    colour: str
    name: str
    curves: Curves
    strip: SampleStrip
    settings: Mapping[str, str]


def compared(runs: Mapping[str, Path], cache: TileCache) -> list[ComparedRun]:
    """The runs of a comparison, in their order, at most `MOST`."""
    room = ROOM // max(1, len(runs))
    columns = []
    for letter, colour, (name, path) in zip(LETTERS, COLOURS, runs.items(), strict=False):
        settings = flat_settings(readable_settings(RunDirectory(path).resolved_config) or {})
        strip = sample_strip(path, cache, room)
        columns.append(ComparedRun(letter, colour, name, read_curves(path), strip, settings))
    return columns


def comparison_page(runs: Sequence[ComparedRun], above: str = "") -> str:
    """The whole page."""
    strip = joined(runs)
    rows = differing_settings([run.settings for run in runs], ABSENT)
    left_out = [f"{run.letter}: {line}" for run in runs for line in (*run.curves.left_out, *run.strip.left_out)]
    if len(rows) > ROWS:
        left_out.append(f"{len(rows) - ROWS:,} of {len(rows):,} settings that differ")
    body = fragment(
        "side_by_side.html",
        runs=runs,
        rows=rows[:ROWS],
        strip=strip,
        left_out=left_out,
        data={"charts": list(_charts(runs)), "samples": strip_data(strip)},
        above=Markup(above),
    )
    return document(" · ".join(run.name for run in runs), body, run_page.look(), run_page.scripts(), live=True)


def joined(runs: Sequence[ComparedRun]) -> SampleStrip:
    """One strip of all runs: at each step what each run had drawn last, raw and averaged, of every prompt and seed."""
    prompts = list(dict.fromkeys(prompt for run in runs for prompt in run.strip.prompts))
    steps = sorted({step for run in runs for step in run.strip.steps})
    columns = [(f"{run.letter} {name}", run.strip, name) for run in runs for name in run.strip.weights]
    tiles = {step: {column: _row(strip, step, name, prompts) for column, strip, name in columns} for step in steps}
    return SampleStrip(prompts, steps, [column for column, _, _ in columns], tiles)


def _row(strip: SampleStrip, step: int, weights: str, prompts: Sequence[SampledPrompt]) -> list[str | None]:
    place = bisect_right(strip.steps, step)
    if place == 0:
        return [None] * len(prompts)
    drawn = dict(zip(strip.prompts, strip.tiles[strip.steps[place - 1]][weights], strict=True))
    return [drawn.get(prompt) for prompt in prompts]


def _charts(runs: Sequence[ComparedRun]) -> Iterator[dict[str, Any]]:
    """The plots of all runs: a colour for each run, a dash for each metric of a plot."""
    plots: dict[str, dict[str, Any]] = {}
    for run in runs:
        curves = run.curves.by_name
        for chart in chart_data(chart_groups(curves), curves):
            plot = plots.setdefault(chart["title"], chart | {"lines": []})
            for place, line in enumerate(chart["lines"]):
                look = {"colour": run.colour, "dash": DASHES[place % len(DASHES)]}
                plot["lines"].append(line | look | {"label": f"{run.letter} {line['label']}"})
    yield from sorted(plots.values(), key=lambda plot: str(plot["title"]) != LOSS)
