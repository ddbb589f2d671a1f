"""All sets of a run in one report: how they are mixed, what each has, what they share."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import NamedTuple

from lun.data.order.buckets import Buckets
from lun.data.sets.joined import JoinedSets
from lun.data.sets.mix import Mix
from lun.data.sets.set_settings import MixSettings
from lun.inspect.duplicates import FILE, Duplicates
from lun.inspect.given import Given
from lun.inspect.statistics import DatasetFacts
from lun.inspect.view import DatasetView
from lun.pages.document import document

REPORT, PAGE = "sets.json", "report.html"


class Inspected(NamedTuple):
    """A set that was looked at: None for what training would refuse, with the exit code for that."""

    given: Given
    data: DatasetView | None
    facts: DatasetFacts | None
    code: int


@dataclass(frozen=True)
class SetRow:
    """One set in the table; `share` of what is read and `laps` an epoch, where sets are mixed."""

    name: str
    pictures: int
    share: float | None
    laps: float | None
    left_out: int
    unreadable: int
    unread: int
    copies: int
    alike: int


@dataclass(frozen=True)
class OverAll:
    """The table, what validation shares with training, and which pictures occur twice over all."""

    rows: list[SetRow]
    mixing: list[str] = field(default_factory=list)
    held_out: int = 0
    held_out_copies: list[tuple[str, str]] = field(default_factory=list)
    held_out_alike: int = 0
    duplicates: dict[str, int] = field(default_factory=dict)


def rows_of(seen: Sequence[Inspected], whole: Given) -> tuple[list[SetRow], list[str]]:
    """The table of the sets that can be read, and their mixing in words."""
    shares, words = _mixing(seen, whole)
    rows = [
        SetRow(
            name=one.given.name,
            pictures=one.facts.usable,
            share=shares.get(one.given.name, (None, None))[0],
            laps=shares.get(one.given.name, (None, None))[1],
            left_out=one.facts.total - one.facts.usable,
            unreadable=len(one.facts.unreadable),
            unread=sum(one.facts.unread.values()),
            copies=_beyond_the_first(one.facts.duplicates),
            alike=_beyond_the_first(one.facts.near_duplicates),
        )
        for one in seen
        if one.facts is not None
    ]
    return rows, words


def _beyond_the_first(groups: Sequence[Sequence[object]]) -> int:
    return sum(len(group) - 1 for group in groups)


def _mixing(seen: Sequence[Inspected], whole: Given) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """NAME -> (share of what is read, laps an epoch), and the words of a plan; nothing without several sets."""
    datasets = [one.data.dataset for one in seen if one.data is not None]
    if "sets" not in whole.recipe or len(datasets) < len(seen):
        return {}, []
    settings = MixSettings.read(whole.recipe)
    buckets = Buckets.read(whole.buckets) if whole.buckets else None
    mix = Mix(settings, JoinedSets(settings.sets, datasets), buckets)
    laps = settings.repeats_at(0, mix.examples)
    read = {name: mix.examples[name] * times for name, times in laps.items()}
    total = sum(read.values(), Fraction(0))
    return {name: (float(read[name] / total), float(times)) for name, times in laps.items()}, mix.lines()


def lines_of(found: OverAll, folder: Path) -> list[str]:
    """The table and the rest for a console."""
    cells = [_HEAD, *(_cells(row) for row in (*found.rows, _sum(found.rows)))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = [
        f"{'sets' if number == 0 else '':<9} {row[0]:<{widths[0]}}"
        + "".join(f"  {cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for number, row in enumerate(cells if found.rows else [])
    ]
    lines += [f"{'mixing' if number == 0 else '':<9} {line}" for number, line in enumerate(found.mixing)]
    if found.duplicates:
        counts = " · ".join(f"{kind} {count:,}" for kind, count in found.duplicates.items())
        lines.append(f"{'twice':<9} over all: {counts}   {folder / FILE}")
    if shared := len(found.held_out_copies) + found.held_out_alike:
        alike = f", {found.held_out_alike:,} of which only look alike" if found.held_out_alike else ""
        example = f", such as {found.held_out_copies[0][0]}" if found.held_out_copies else ""
        lines.append(
            f"warning[DAT10]: {shared:,} of the {found.held_out:,} pictures for validation are in training too,"
            f" by their content{alike}{example}"
        )
    return lines


_HEAD = ("NAME", "pictures", "share", "laps", "left out", "unreadable", "unread", "copies", "alike")


def _cells(row: SetRow) -> tuple[str, ...]:
    share = "" if row.share is None else f"{row.share:.1%}"
    laps = "" if row.laps is None else f"{row.laps:.4g}"
    counts = (row.left_out, row.unreadable, row.unread, row.copies, row.alike)
    return (row.name, f"{row.pictures:,}", share, laps, *(f"{count:,}" for count in counts))


def _sum(rows: Sequence[SetRow]) -> SetRow:
    counts = {
        name: sum(getattr(row, name) for row in rows)
        for name in ("pictures", "left_out", "unreadable", "unread", "copies", "alike")
    }
    return SetRow(name="all", share=None, laps=None, **counts)


def counts_of(duplicates: Duplicates) -> dict[str, int]:
    """In words, for the table: how many pictures are one too many."""
    return {
        "same file": _beyond_the_first(duplicates.copies),
        "look alike": _beyond_the_first(duplicates.alike),
        "of": duplicates.count,
    }


def write_over_all(found: OverAll, folder: Path, kinds: Mapping[str, bool] | set[str]) -> None:
    """`sets.json` and a page that leads to those of the sets, as far as they were asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    if "json" in kinds:
        text = json.dumps(asdict(found), indent=1, ensure_ascii=False)
        (folder / REPORT).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
    if "html" in kinds:
        (folder / PAGE).write_text(_page(found), encoding="utf-8", errors="backslashreplace")


def _page(found: OverAll) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in _HEAD)
    rows = "".join(
        f"<tr><td><a href='{escape(row.name, quote=True)}/{PAGE}'>{escape(row.name)}</a></td>"
        + "".join(f"<td class='number'>{escape(cell)}</td>" for cell in _cells(row)[1:])
        + "</tr>"
        for row in found.rows
    )
    rest = "".join(f"<p>{escape(line)}</p>" for line in lines_of(found, Path())[len(found.rows) + 2 :])
    return document("sets", f"<h1>{len(found.rows)} sets</h1><table><tr>{head}</tr>{rows}</table>{rest}")
