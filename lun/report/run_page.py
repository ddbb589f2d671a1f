"""`report.html`: the page of one run."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

from markupsafe import Markup

from ldm.files.replacing import replace_text
from lun.pages.document import asset, document, fragment
from lun.report.chart_groups import chart_data, chart_groups
from lun.report.curves import MetricCurve
from lun.report.picture_list import keep_thumbnails
from lun.report.run_facts import RunFacts
from lun.report.run_state import ways_on
from lun.report.sample_tiles import TileCache, strip_data

FILE = "report.html"
FILES = 200
CHANGES = 60
"""Settings of one start that are listed."""


def write_page(run: Path, cache: TileCache, writing: bool = False) -> Path:
    """Write the page of the run directory `run` into it, in place of the one before; its path. Raises OSError.

    writing   this process trains the run
    """
    path = run / FILE
    if writing:
        keep_thumbnails(run)
    replace_text(path, run_page(RunFacts.of(run, cache, writing)))
    return path


def run_page(facts: RunFacts, live: bool = False, above: str = "") -> str:
    """The whole page; `live` where a server makes it anew at each request, `above` is HTML over it."""
    groups = chart_groups(facts.curves.by_name)
    body = fragment(
        "run.html",
        facts=facts,
        strip=facts.strip,
        state=facts.state,
        written=datetime.fromtimestamp(facts.state.now),
        numbers=[_numbers(name, curve) for name, curve in facts.curves.by_name.items()],
        charts=groups,
        ways=ways_on(facts.run, facts.state),
        files=facts.files[:FILES],
        more_files=max(0, len(facts.files) - FILES),
        all_files=sum(one.size for one in facts.files),
        most_changes=CHANGES,
        size=size,
        day=day,
        data={"charts": chart_data(groups, facts.curves.by_name), "samples": strip_data(facts.strip)},
        above=Markup(above),
    )
    return document(facts.run.name, body, look(), scripts(), live)


def look() -> str:
    """The styles of a page that has curves and samples."""
    return asset("uPlot.min.css") + asset("run.css")


def scripts() -> tuple[str, ...]:
    """What draws its curves and moves its sliders."""
    return asset("uPlot.iife.min.js"), asset("run.js")


def size(number: float) -> str:
    """Bytes in words: 1.5 GB, as disks are sold."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:,.0f} {unit}" if unit == "bytes" else f"{number:,.1f} {unit}"
        number /= 1000
    return f"{number:,.1f} TB"


def day(seconds: float) -> str:
    """A time in seconds since 1970 as people write it here."""
    try:
        return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return ""


def _numbers(name: str, curve: MetricCurve) -> dict[str, Any]:
    """A row of the table of metrics: first, newest, lowest and where."""
    known = [(value, step) for step, value in zip(curve.steps, curve.values, strict=True) if value is not None]
    lowest, at = min(known, default=(None, None))
    highest, top = max(known, default=(None, None))
    return {
        "name": name,
        "first": known[0][0] if known else None,
        "newest": curve.values[-1],
        "lowest": lowest,
        "at": at,
        "highest": highest,
        "top": top,
    }
