"""`report.html`: the facts and the contact sheet in one file that needs no other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from lun.inspect.contact import Seen, data_url, thumbnail
from lun.inspect.facts import LIMIT, Facts, Histogram
from lun.inspect.rejected import Row

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2230; --soft: #667085; --line: #d8dde6; --bar: #4c78c8; --bad: #c8524c;
  --page: #ffffff; --card: #f6f7fa; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ef; --soft: #98a2b3; --line: #343b49; --bar: #6f9bea;
  --bad: #e57a73; --page: #14171d; --card: #1d222b; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 1240px;
  margin: 2rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.5rem; margin: 0 0 .2rem; } h2 { font-size: 1.1rem; margin: 2.2rem 0 .7rem; }
.soft, figcaption .later { color: var(--soft); } code { font-size: .9em; }
.bars { display: grid; grid-template-columns: max-content 1fr max-content; gap: .25rem .8rem; align-items: center; }
.bar { height: .8rem; background: var(--bar); border-radius: 2px; min-width: 1px; } .bar.bad { background: var(--bad); }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(176px, 1fr)); gap: .8rem; }
figure { margin: 0; background: var(--card); border-radius: 6px; padding: 8px; overflow-wrap: anywhere; }
figure img { display: block; margin: 0 auto; max-width: 100%; } figcaption { font-size: .78rem; margin-top: .4rem; }
figcaption p { margin: .25rem 0; } .pair { display: flex; gap: 6px; justify-content: center; align-items: center; }
.pair img { max-width: 48%; margin: 0; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(330px, 1fr)); gap: 1.4rem; }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); } svg rect { fill: var(--bar); }
svg line { stroke: var(--bad); stroke-dasharray: 4 3; }
table { border-collapse: collapse; font-size: .85rem; } td, th { text-align: left; padding: .15rem .9rem .15rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.tags span { display: inline-block;
  background: var(--card); border-radius: 4px; padding: .05rem .5rem; margin: .15rem; }
.warning { border-left: 3px solid var(--bad); padding: .2rem .8rem; background: var(--card); }
"""

_LISTED = 300


def page(title: str, facts: Facts, seen: Sequence[Seen], rejected: Sequence[Row], seed: int) -> str:
    """The whole page."""
    parts = [
        f"<h1>{escape(title)}</h1><p class='soft'>{escape(facts.layout)} · {facts.usable:,} of {facts.total:,} usable"
        f" · fingerprint <code>{facts.fingerprint[:12]}</code></p>",
        *(f"<p class='warning'>{escape(warning)}</p>" for warning in facts.warnings),
        "<h2>What is left after each filter</h2>",
        _waterfall(facts),
        f"<h2>What the model will see</h2><p class='soft'>The first {len(seen)} examples of a run with seed {seed}:"
        " crop, size and mirroring as in training; below, the caption of that moment, then those of later epochs.</p>",
        f"<div class='sheet'>{''.join(_figure(one) for one in seen)}</div>",
        f"<h2>Before and after the crop</h2><p class='soft'>{facts.cropped_away:.1%} of all pixels are cropped away,"
        f" {facts.smaller:,} pictures are enlarged.</p>",
        f"<div class='sheet'>{''.join(map(_pair, seen[:8]))}</div>",
        "<h2>In numbers</h2>",
        f"<div class='charts'>{''.join(_charts(facts))}</div>",
        _tags(facts),
        _files(facts),
        _rejected(rejected),
    ]
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{_STYLE}</style><body>{''.join(parts)}</body></html>\n"
    )


def _waterfall(facts: Facts) -> str:
    rows = [("in the folder", facts.total, "")]
    rows += [(str(step["words"]), int(step["count"]), "bad") for step in facts.waterfall if step["count"]]
    rows += [("usable", facts.usable, "")]
    whole = max(1, facts.total)
    cells = (
        f"<span>{escape(words)}</span><span class='bar {kind}' style='width:{100 * count / whole:.2f}%'></span>"
        f"<span class='number'>{'−' if kind else ''}{count:,}</span>"
        for words, count, kind in rows
    )
    return f"<div class='bars'>{''.join(cells)}</div>"


def _figure(one: Seen) -> str:
    later = "".join(f"<p class='later'>{escape(text) or '(empty)'}</p>" for text in one.captions[1:])
    return (
        f"<figure title='{escape(one.name, quote=True)}'><img alt='' src='{data_url(thumbnail(one.image))}'>"
        f"<figcaption><p>{escape(one.captions[0]) or '(empty)'}</p>{later}</figcaption></figure>"
    )


def _pair(one: Seen) -> str:
    images = "".join(f"<img alt='' src='{data_url(image)}'>" for image in (one.whole, thumbnail(one.image)))
    return f"<figure><div class='pair'>{images}</div><figcaption><p>{escape(one.name)}</p></figcaption></figure>"


def _charts(facts: Facts) -> Iterable[str]:
    yield chart("width / height", facts.aspect, mark=1.0)
    yield chart("size: square root of the pixels", facts.resolution)
    limit = LIMIT if facts.length_in == "tokens" else None
    yield chart(f"length of captions in {facts.length_in}", facts.lengths, mark=limit)
    if facts.score is not None:
        yield chart("score", facts.score)


def chart(title: str, data: Histogram, mark: float | None = None) -> str:
    """A histogram as inline SVG, with a dashed line at `mark`."""
    top, wide, high = max(data.counts) or 1, 330, 120
    step = wide / len(data.counts)
    bars = "".join(
        f"<rect x='{place * step + 1:.1f}' y='{high - high * count / top:.1f}' width='{step - 2:.1f}'"
        f" height='{high * count / top:.1f}'><title>"
        f"{data.edges[place]:g} to {data.edges[place + 1]:g}: {count:,}</title></rect>"
        for place, count in enumerate(data.counts)
        if count
    )
    line = ""
    if mark is not None and data.edges[0] < mark < data.edges[-1]:
        bin_of = next(place for place, edge in enumerate(data.edges) if edge > mark) - 1
        low, up = data.edges[bin_of], data.edges[bin_of + 1]
        x = (bin_of + (mark - low) / (up - low)) * step
        line = f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{high}'/><text x='{x + 4:.1f}' y='11'>{mark:g}</text>"
    ends = (
        f"<text x='0' y='{high + 14}'>{data.edges[0]:g}</text>"
        f"<text x='{wide}' y='{high + 14}' text-anchor='end'>{data.edges[-1]:g}</text>"
    )
    return f"<div><p>{escape(title)}</p><svg viewBox='0 0 {wide} {high + 18}' role='img'>{bars}{line}{ends}</svg></div>"


def _tags(facts: Facts) -> str:
    if not facts.top_tags:
        return ""
    words = "".join(f"<span>{escape(tag)} <span class='soft'>{count:,}</span></span>" for tag, count in facts.top_tags)
    everywhere = (
        f" On nearly every picture, so that they tell nothing: {escape(', '.join(facts.everywhere))}."
        if facts.everywhere
        else ""
    )
    return (
        "<h2>Tags</h2>"
        f"<p class='soft'>{facts.different_tags:,} different, {facts.tags_once:,} of them once.{everywhere}</p>"
        f"<div class='tags'>{words}</div>"
    )


def _files(facts: Facts) -> str:
    kinds = ", ".join(f"{count:,} {escape(kind)}" for kind, count in facts.file_types.items())
    groups = "".join(f"<tr><td>{escape(' = '.join(group[:6]))}</td></tr>" for group in facts.duplicates[:20])
    extra = sum(len(group) - 1 for group in facts.duplicates)
    table = f"<table>{groups}</table>" if groups else ""
    return f"<h2>Files</h2><p>{kinds}. Files whose bytes occur again: {extra:,}.</p>{table}"


def _rejected(rows: Sequence[Row]) -> str:
    if not rows:
        return "<h2>Left out</h2><p>Nothing.</p>"
    more = f"<p class='soft'>{len(rows) - _LISTED:,} more in rejected.csv.</p>" if len(rows) > _LISTED else ""
    lines = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows[:_LISTED])
    return f"<h2>Left out</h2><details><summary>{len(rows):,} pictures</summary><table>{lines}</table>{more}</details>"
