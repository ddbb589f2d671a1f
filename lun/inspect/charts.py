"""Histograms and tables of numbers as inline SVG and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from lun.inspect.statistics import Histogram
from lun.inspect.tags import Together

WIDE, HIGH = 340, 120


def chart(title: str, data: Histogram, limits: Sequence[float] = (), unit: str = "") -> str:
    """A histogram with dashed lines at `limits`, as far as these lie within it."""
    top, step = max(data.counts) or 1, WIDE / len(data.counts)
    bars = "".join(
        f"<rect x='{place * step + 1:.1f}' y='{HIGH - HIGH * count / top:.1f}' width='{step - 2:.1f}'"
        f" height='{HIGH * count / top:.1f}' rx='1.5'><title>"
        f"{_short(data.edges[place])} to {_short(data.edges[place + 1])}{unit}: {count:,}</title></rect>"
        for place, count in enumerate(data.counts)
        if count
    )
    lines = "".join(_line(x, limit) for limit in limits if (x := _place(data, limit, step)) is not None)
    ends = (
        f"<line class='axis' x1='0' x2='{WIDE}' y1='{HIGH}' y2='{HIGH}'/>"
        f"<text x='0' y='{HIGH + 14}'>{_short(data.edges[0])}{unit}</text>"
        f"<text x='{WIDE}' y='{HIGH + 14}' text-anchor='end'>{_short(data.edges[-1])}{unit}</text>"
    )
    return (
        f"<div><p>{escape(title)}</p><svg viewBox='0 -14 {WIDE} {HIGH + 32}' role='img'"
        f" aria-label='{escape(title, quote=True)}'>{bars}{ends}{lines}</svg></div>"
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _place(data: Histogram, value: float, step: float) -> float | None:
    if not data.edges[0] <= value <= data.edges[-1]:
        return None
    bin_of = min(sum(edge <= value for edge in data.edges[1:]), len(data.counts) - 1)
    low, high = data.edges[bin_of], data.edges[bin_of + 1]
    return (bin_of + (value - low) / (high - low)) * step


def _line(x: float, value: float) -> str:
    side = f"x='{x - 4:.1f}' text-anchor='end'" if x > 0.8 * WIDE else f"x='{x + 4:.1f}'"
    line = f"<line class='limit' x1='{x:.1f}' x2='{x:.1f}' y1='-12' y2='{HIGH}'/>"
    return f"{line}<text {side} y='-4'>{_short(value)}</text>"


def heat_map(together: Together) -> str:
    """A row for each tag: on which share of its pictures the others stand too."""
    head = "".join(f"<th class='column'><div>{escape(tag)}</div></th>" for tag in together.tags)
    rows = "".join(_row(together, number) for number in range(len(together.tags)))
    return f"<div class='scroll'><table class='heat'><tr><th></th>{head}</tr>{rows}</table></div>"


def _row(together: Together, row: int) -> str:
    cells = "".join(_cell(together, row, column) for column in range(len(together.tags)))
    return f"<tr><th class='row'>{escape(together.tags[row])}</th>{cells}</tr>"


def _cell(together: Together, row: int, column: int) -> str:
    if row == column:
        return "<td></td>"
    share = together.shares[row][column]
    title = escape(f"{share:.0%} of {together.tags[row]} have {together.tags[column]}", quote=True)
    shade = f"background: color-mix(in srgb, var(--bar) {100 * share:.0f}%, var(--card))"
    return f"<td title='{title}'><div style='{shade}'>{100 * share:.0f}</div></td>"
