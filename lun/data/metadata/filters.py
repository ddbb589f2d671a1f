"""Small named filters over a table: each says which rows it keeps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ldm.errors import Fault
from lun.data.metadata.description import seconds
from lun.data.metadata.picture_table import Table
from lun.data.metadata.table_builder import EMBEDDED, MOST_REPEATS, NO_PATH, ODD_REPEATS, OUTSIDE, UNREADABLE

Kept = NDArray[np.bool_]
Sizes = Callable[[NDArray[np.int64]], NDArray[np.int32]]
"""(rows) -> (len(rows), 2) width and height, from the files' headers"""


@dataclass(frozen=True)
class Filter:
    """`words` names what is removed, for the waterfall; `keep(table, left)` is asked about rows still `left` (n,)."""

    name: str
    words: str
    keep: Callable[[Table, Kept], Kept]


def whole() -> list[Filter]:
    """What was wrong with the descriptions themselves."""
    return [
        Filter("unreadable", "unreadable descriptions", lambda table, _: table.problem != UNREADABLE),
        Filter("no_path", "descriptions without a path", lambda table, _: table.problem != NO_PATH),
        Filter("outside", "paths that lead out of the folder", lambda table, _: table.problem != OUTSIDE),
        Filter("embedded", "pictures within their description", lambda table, _: table.problem != EMBEDDED),
        Filter("repeats", f"repeats that are not 0 to {MOST_REPEATS:,}", lambda table, _: table.problem != ODD_REPEATS),
    ]


UNREADABLE_IMAGE = "unreadable image"


def readable(sizes: Sizes, aspect: bool, shorter: bool) -> Filter:
    """A header that can be read, asked where a description lacks the aspect or the sides that filters look at."""

    def keep(table: Table, left: Kept) -> Kept:
        lacks = (np.isnan(table.aspect) & aspect) | ((np.minimum(table.width, table.height) <= 0) & shorter)
        asked = np.flatnonzero(left & lacks)
        mask = np.ones(len(table), bool)
        if len(asked):
            mask[asked] = sizes(asked).min(axis=1) > 0
        return mask

    return Filter("unreadable_images", UNREADABLE_IMAGE, keep)


def scored() -> Filter:
    """Any score."""
    return Filter("no_score", "without a score", lambda table, _: ~np.isnan(table.score))


def rated() -> Filter:
    """Any rating."""
    return Filter("no_rating", "without a rating", lambda table, _: table.rating >= 0)


def dated() -> Filter:
    """Any date."""
    return Filter("no_date", "without a date", lambda table, _: ~np.isnan(table.date))


def every_nth(nth: int) -> Filter:
    """The first row of each `nth`, in the order of the table."""

    def keep(table: Table, left: Kept) -> Kept:
        mask: Kept = np.arange(len(table)) % nth == 0
        return mask

    return Filter("consider_every_nth", f"not one of every {nth}", keep)


def aspect_range(least: float, most: float, sizes: Sizes) -> Filter:
    """Width / height within [least, most], as described or else as the file's header says."""

    def keep(table: Table, left: Kept) -> Kept:
        aspect = table.aspect.astype(np.float64)
        unknown = np.flatnonzero(left & np.isnan(aspect))
        if len(unknown):
            wide = sizes(unknown)
            with np.errstate(divide="ignore", invalid="ignore"):
                aspect[unknown] = wide[:, 0] / wide[:, 1]
        mask: Kept = (aspect >= least - 1e-6) & (aspect <= most + 1e-6)
        return mask

    return Filter("aspect_range", f"aspect ratio outside {least:g} to {most:g}", keep)


def min_size(pixels: int, sizes: Sizes) -> Filter:
    """A shorter side of at least `pixels`, as described or else as the file's header says."""

    def keep(table: Table, left: Kept) -> Kept:
        shorter = np.minimum(table.width, table.height)
        unknown = np.flatnonzero(left & (shorter <= 0))
        if len(unknown):
            shorter = shorter.copy()
            shorter[unknown] = sizes(unknown).min(axis=1)
        mask: Kept = shorter >= pixels
        return mask

    return Filter("min_size", f"shorter side below {pixels} pixels", keep)


def abs_min_score(least: float) -> Filter:
    """A score of at least `least`, whatever the tags."""
    return Filter("abs_min_score", f"score below abs_min_score {least:g}", lambda table, _: table.score >= least)


def min_score(least: float, bonuses: Mapping[str, float]) -> Filter:
    """Score plus the bonuses of its tags of at least `least`."""

    def keep(table: Table, left: Kept) -> Kept:
        mask: Kept = bonus_scores(table, bonuses) >= least
        return mask

    after = " (after tag bonuses)" if bonuses else ""
    return Filter("min_score", f"score below min_score {least:g}{after}", keep)


def bonus_scores(table: Table, bonuses: Mapping[str, float]) -> NDArray[np.float64]:
    """(n,): score plus what each tag adds."""
    if not bonuses:
        return table.score
    of_word = np.array([bonuses.get(word, 0.0) for word in table.words] or [0.0])
    scores: NDArray[np.float64] = table.score + table.tags.sums(of_word)
    return scores


def ratings(allowed: Sequence[str]) -> Filter:
    """One of these ratings."""

    def keep(table: Table, left: Kept) -> Kept:
        mask: Kept = np.isin(table.rating, [table.numbers[one] for one in allowed if one in table.numbers])
        return mask

    return Filter("ratings", f"rating other than {' '.join(allowed)}", keep)


def date_range(first: str | None, last: str | None) -> Filter:
    """From `first` on and before `last`."""
    since, until = _moment(first, "min_date", -np.inf), _moment(last, "max_date", np.inf)

    def keep(table: Table, left: Kept) -> Kept:
        mask: Kept = (table.date >= since) & (table.date < until)
        return mask

    said = " and ".join(part for part in (first and f"from {first} on", last and f"before {last}") if part)
    return Filter("dates", f"date not {said}", keep)


def _moment(text: str | None, name: str, otherwise: float) -> float:
    if text is None:
        return otherwise
    moment = seconds(str(text))
    if moment is None:
        raise Fault("CFG08", f"{name} cannot be {text!r}", why="it takes a day such as 2022-09-01, or a moment")
    return moment


def custom_filter(test: Callable[[list[str]], Any]) -> Filter:
    """Whatever a function of the list of tags says (the tags of scores are not among them)."""

    def keep(table: Table, left: Kept) -> Kept:
        mask = left.copy()
        for row in np.flatnonzero(left).tolist():
            mask[row] = bool(test(table.tags_of(row)))
        return mask

    return Filter("custom_filter", "custom_filter", keep)


def blacklist_tags(tags: Collection[str]) -> Filter:
    """None of these tags."""
    return Filter("blacklist_tags", "blacklisted tags", lambda table, _: ~has_any(table, tags))


def require_tags(tags: Collection[str]) -> Filter:
    """All of these tags."""

    def keep(table: Table, left: Kept) -> Kept:
        mask = np.ones(len(table), bool)
        for tag in tags:
            mask &= has_any(table, [tag])
        return mask

    return Filter("require_tags", f"without the required tag{'s' * (len(tags) > 1)} {', '.join(tags)}", keep)


def has_any(table: Table, tags: Collection[str]) -> Kept:
    """(n,): whether a row has one of `tags`"""
    wanted = np.zeros(max(1, len(table.words)))
    wanted[[table.numbers[tag] for tag in tags if tag in table.numbers]] = 1
    mask: Kept = table.tags.sums(wanted) > 0
    return mask
