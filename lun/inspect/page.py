"""`report.html`: the facts and the contact sheet in one file that needs no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from ldm.errors import Fault
from lun.inspect.caption_changes import CaptionPiece
from lun.inspect.charts import chart, heat_map
from lun.inspect.contact import DRAWS, Seen, small, thumbnail
from lun.inspect.given import Given
from lun.inspect.rejected import Row
from lun.inspect.statistics import DatasetFacts
from lun.inspect.style import STYLE, draw_rules
from lun.inspect.view import DatasetView
from lun.pages.document import data_url, document

_LISTED = 100
_PAIRS = 8
_GROUPS, _OF_A_GROUP = 12, 5


def page(given: Given, facts: DatasetFacts, seen: Sequence[Seen], rejected: Sequence[Row], data: DatasetView) -> str:
    """The whole page."""
    sections = {
        "What is left after each filter": _funnel(facts),
        "What the model will see": _sheet(seen, given.seed),
        "What the crop takes away": _crops(facts, seen),
        "Captions before and after the rules": _changes(facts),
        "In numbers": f"<div class='charts'>{''.join(_charts(facts))}</div>{_buckets(facts)}",
        "Tags": _tags(facts),
        "Files": _files(facts),
        "Pictures that occur twice": _twice(facts, data),
        "Left out": _rejected(rejected),
    }
    shown = {title: body for title, body in sections.items() if body}
    links = "".join(f"<a href='#{_anchor(title)}'>{escape(title)}</a>" for title in shown)
    bodies = "".join(f"<h2 id='{_anchor(title)}'>{escape(title)}</h2>{body}" for title, body in shown.items())
    body = (
        f"<h1>{escape(given.name)}</h1>"
        f"<p class='soft'>{escape(facts.layout)} · fingerprint <code>{facts.fingerprint[:12]}</code></p>"
        f"{_tiles(facts)}{''.join(f'<p class=warning>{escape(one)}</p>' for one in facts.warnings)}"
        f"<nav>{links}</nav>{bodies}"
    )
    return document(given.name, body, STYLE + draw_rules(DRAWS))


def _anchor(title: str) -> str:
    return "-".join(title.lower().split())


def _tiles(facts: DatasetFacts) -> str:
    width, height = facts.median_size
    copies = sum(len(group) - 1 for group in (*facts.duplicates, *facts.near_duplicates))
    over = f", {facts.too_long / max(1, facts.captions):.0%} too long" if facts.too_long else ""
    tiles = [
        (f"{facts.usable:,}", f"pictures of {facts.total:,} in the folder"),
        (f"{width} × {height}", "pixels in the middle of all sizes"),
        (f"{facts.cropped_away:.0%}", "of all pixels cropped away"),
        (f"{facts.median_length}", f"{facts.length_in} in a typical caption{over}"),
        (f"{facts.different_tags:,}", "different tags") if facts.different_tags else (f"{facts.empty:,}", "no caption"),
        (f"{copies:,}", "copies and near copies"),
    ]
    cells = "".join(f"<div class='tile'><b>{big}</b><span>{text}</span></div>" for big, text in tiles)
    return f"<div class='tiles'>{cells}</div>"


def _funnel(facts: DatasetFacts) -> str:
    whole, left, lines = max(1, facts.total), facts.total, [_bar("in the folder", facts.total, 0, facts.total)]
    for step in facts.waterfall:
        if count := int(step["count"]):
            left -= count
            words = str(step["words"])
            link = f"<a href='#{_reason(words)}'>{escape(words)}</a>"
            lines.append(_bar(link, left, count, whole))
    lines.append(_bar("<b>usable</b>", facts.usable, 0, whole))
    return f"<div class='funnel'>{''.join(lines)}</div>"


def _bar(words: str, left: int, gone: int, whole: int) -> str:
    minus = f"−{gone:,}" if gone else ""
    bad = f"<i class='bad' style='width:{100 * gone / max(1, whole):.2f}%'></i>" if gone else ""
    return (
        f"<span>{words}</span><span class='track'><i style='width:{100 * left / max(1, whole):.2f}%'></i>{bad}</span>"
        f"<span class='number minus'>{minus}</span><span class='number'>{left:,}</span>"
    )


def _sheet(seen: Sequence[Seen], seed: int) -> str:
    inputs = "".join(
        f"<input class='hidden' type='radio' name='draw' id='draw{draw}'{' checked' if draw == 0 else ''}>"
        for draw in range(DRAWS)
    )
    labels = "".join(
        f"<label for='draw{draw}'>{'first time' if draw == 0 else 'later' if draw == 1 else 'later still'}</label>"
        for draw in range(DRAWS)
    )
    return (
        f"<p class='soft'>The first {len(seen)} examples of a run with seed {seed}, with the size, crop, mirroring and"
        f" caption of that moment. Each time a picture comes round it is drawn anew:</p>"
        f"<div>{inputs}<div class='draws'>{labels}</div><div class='sheet'>{''.join(map(_figure, seen))}</div></div>"
    )


def _figure(one: Seen) -> str:
    turned = [f"turned{number}" for number, draw in enumerate(one.draws) if draw.mirrored != one.draws[0].mirrored]
    captions = "".join(
        f"<p class='draw draw{number}'>{_or_empty(draw.caption)}</p>" for number, draw in enumerate(one.draws)
    )
    return (
        f"<figure title='{escape(one.name, quote=True)}' class='{' '.join(turned)}'>"
        f"<img alt='' src='{data_url(thumbnail(one.image))}'><figcaption>{captions}</figcaption></figure>"
    )


def _or_empty(text: str) -> str:
    return escape(text) or "<span class='soft'>(empty)</span>"


def _crops(facts: DatasetFacts, seen: Sequence[Seen]) -> str:
    worst = sorted(seen, key=lambda one: -one.cropped)[:_PAIRS]
    return (
        f"<p class='soft'>{facts.cropped_away:.1%} of all pixels, and {facts.smaller:,} pictures are enlarged. Of those"
        " above, what loses most; the dark part is not seen in training.</p>"
        f"<div class='sheet'>{''.join(map(_pair, worst))}</div>"
    )


def _pair(one: Seen) -> str:
    images = "".join(f"<img alt='' src='{data_url(image)}'>" for image in (one.whole, thumbnail(one.image)))
    return (
        f"<figure><div class='pair'>{images}</div><figcaption>{escape(one.name)}"
        f" <span class='soft'>{one.cropped:.0%} cropped</span></figcaption></figure>"
    )


def _changes(facts: DatasetFacts) -> str:
    anew = "Tags are drawn anew whenever a picture comes round; this is the first time. " if facts.drawn_anew else ""
    if not any(change.is_one for change in facts.changes):
        same = "These came out as they were written." if anew else "They are read as they were written."
        return f"<p class='soft'>{anew}{same}</p>"
    return f"<p class='soft'>{anew}</p>" * bool(anew) + "".join(
        f"<div class='change'><div class='name'>{escape(change.name)}</div>"
        f"<small>as written</small><div class='chips'>{_chips(change.written, 'gone')}</div>"
        f"<small>as it is read</small><div class='chips'>{_chips(change.seen, 'new')}</div></div>"
        for change in facts.changes
    )


def _chips(pieces: Sequence[CaptionPiece], kind: str) -> str:
    if not pieces:
        return "<span class='soft'>(empty)</span>"
    return "".join(f"<span{f' class={kind}' if one.changed else ''}>{escape(one.text)}</span>" for one in pieces)


def _charts(facts: DatasetFacts) -> Iterator[str]:
    yield chart("width / height", facts.aspect, [*facts.limits["aspect"], 1.0])
    yield chart("size: square root of the pixels", facts.resolution, facts.limits["resolution"])
    yield chart("cropped away", facts.cropped, unit="%")
    limits = [float(facts.most_tokens)] if facts.length_in == "tokens" else []
    yield chart(f"length of captions in {facts.length_in}", facts.lengths, limits)
    if facts.score is not None:
        yield chart("score", facts.score, facts.limits["score"])


def _buckets(facts: DatasetFacts) -> str:
    return f"<h3>Buckets</h3><pre>{escape(chr(10).join(facts.buckets))}</pre>" if facts.buckets else ""


def _tags(facts: DatasetFacts) -> str:
    if not facts.top_tags:
        return ""
    words = "".join(f"<span>{escape(tag)} <span class='soft'>{count:,}</span></span>" for tag, count in facts.top_tags)
    everywhere = (
        f" On nearly every picture, so that they distinguish nothing: {escape(', '.join(facts.everywhere))}."
        if facts.everywhere
        else ""
    )
    both = (
        "<h3>Together</h3><p class='soft'>Of the pictures with the tag on the left, so many in a hundred have the one"
        f" above.</p>{heat_map(facts.together)}"
        if facts.together
        else ""
    )
    return (
        f"<p class='soft'>{facts.different_tags:,} different, {facts.tags_once:,} of them once.{everywhere}</p>"
        f"<div class='chips'>{words}</div>{both}"
    )


def _files(facts: DatasetFacts) -> str:
    rows = [*facts.file_types.items(), *facts.looks.kinds.items(), *facts.unread.items()]
    if facts.looks.headers < facts.usable:
        rows.append((f"(kinds are those of {facts.looks.headers:,} pictures, spread evenly)", 0))
    lines = "".join(
        f"<tr><td>{escape(kind)}</td><td class='number'>{f'{count:,}' if count else ''}</td></tr>"
        for kind, count in rows
    )
    return f"<table>{lines}</table>"


def _twice(facts: DatasetFacts, data: DatasetView) -> str:
    among = f" among {facts.looks.pictures:,}, spread evenly" if facts.looks.pictures < facts.usable else ""
    copies = sum(len(group) - 1 for group in facts.duplicates)
    alike = sum(len(group) - 1 for group in facts.near_duplicates)
    summary = f"<p class='soft'>The same file again: {copies:,}. Look alike{among}: {alike:,}.</p>"
    groups = [*facts.near_duplicates[:_GROUPS], *facts.duplicates[:_GROUPS]]
    return summary + "".join(_group(group, data) for group in groups)


def _group(names: Sequence[str], data: DatasetView) -> str:
    images = "".join(_small(name, data) for name in names[:_OF_A_GROUP])
    more = f"<span class='soft'>+{len(names) - _OF_A_GROUP}</span>" if len(names) > _OF_A_GROUP else ""
    return f"<span class='group'>{images}{more}</span>"


def _small(name: str, data: DatasetView) -> str:
    try:
        return f"<img alt='' title='{escape(name, quote=True)}' src='{data_url(small(data.root / name))}'>"
    except Fault:
        return f"<span>{escape(name)}</span>"  # the same broken file twice


def _reason(words: str) -> str:
    return "out-" + _anchor("".join(letter if letter.isalnum() else " " for letter in words))


def _rejected(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>Nothing.</p>"
    return "".join(_of_reason(words, list(some)) for words, some in groupby(rows, key=lambda row: row[1]))


def _of_reason(words: str, rows: Sequence[Row]) -> str:
    more = f"<p class='soft'>{len(rows) - _LISTED:,} more in rejected.csv.</p>" if len(rows) > _LISTED else ""
    lines = "".join(_cells((path, detail)) for path, _, detail in rows[:_LISTED])
    return (
        f"<details id='{_reason(words)}'><summary>{escape(words)} <span class='soft'>{len(rows):,}</span></summary>"
        f"<table>{lines}</table>{more}</details>"
    )


def _cells(row: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
