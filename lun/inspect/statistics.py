"""What can be said about a data set in numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ldm.errors import Fault
from lun.data.images.decode import header_size
from lun.data.index.dir_handle import open_file
from lun.data.index.listing import extension
from lun.data.metadata.filters import UNREADABLE_IMAGE
from lun.data.metadata.waterfall import Waterfall
from lun.data.order.bucket_table import BucketTable, assign
from lun.data.order.buckets import Buckets, fit_sizes
from lun.data.packs.mixing import ShardMixing
from lun.inspect.caption_changes import Change, changes_of
from lun.inspect.given import Given
from lun.inspect.looks import Looks, beyond_copies, looks_of
from lun.inspect.rejected import Row
from lun.inspect.tags import Together, tagged, together
from lun.inspect.view import DatasetView

CAPTIONS_READ = 20_000
DUPLICATES_READ = 20_000
STEPS = (32, 256)
"""Examples of a step for which a packed set's window is shown."""


@dataclass(frozen=True)
class Histogram:
    """`counts` of values between neighbouring `edges`."""

    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class DatasetFacts:
    """Numbers of one data set; everything is plain, so that it can be written as JSON."""

    layout: str
    total: int
    usable: int
    waterfall: list[dict[str, str | int]]
    median_size: tuple[int, int]
    smaller: int
    cropped_away: float
    cropped: Histogram
    buckets: list[str]
    aspect: Histogram
    resolution: Histogram
    unreadable: list[Row]
    unread: dict[str, int]
    file_types: dict[str, int]
    looks: Looks
    duplicates: list[list[str]]
    near_duplicates: list[list[str]]
    captions: int
    choices: dict[int, int]
    empty: int
    identical: int
    length_in: str
    lengths: Histogram
    median_length: int
    longest: int
    most_tokens: int
    too_long: int
    different_tags: int
    tags_once: int
    top_tags: list[tuple[str, int]]
    everywhere: list[str]
    together: Together | None
    changes: list[Change]
    drawn_anew: bool
    score: Histogram | None
    limits: dict[str, list[float]]
    repeats: float
    fingerprint: str
    mixing: dict[str, float]
    windows: dict[str, int]
    warnings: list[str] = field(default_factory=list)


def facts_of(data: DatasetView, given: Given) -> DatasetFacts:
    """Look at all headers, up to 20,000 captions and up to 3,000 pictures."""
    sizes = data.sizes
    sound = sizes[sizes.min(axis=1) > 0].astype(np.int64)
    waterfall = data.waterfall
    captions = data.captions(given.seed, CAPTIONS_READ)
    count_tokens = given.token_counter()
    counted = np.array([count_tokens(text) if count_tokens else len(text.split()) for text in captions] or [0])
    tag_rows = tagged(data.tags(), captions)
    tags, unreadable = tag_rows.counts(), _unreadable(data, sizes)
    shapes = sound if len(sound) else np.ones((1, 2), np.int64)
    buckets = Buckets.read(given.buckets) if given.buckets else None
    table = _table(data, buckets) if buckets else None
    cropped = 1 - (1 - _cropped(shapes, data.crop, buckets)) * data.drawn_share
    mixing = data.mixing
    looks, copies = looks_of(data), _duplicates(data)
    return DatasetFacts(
        layout=data.layout,
        total=waterfall.total,
        usable=waterfall.left - len(unreadable),
        waterfall=_waterfall(waterfall, len(unreadable)),
        median_size=(int(np.median(shapes[:, 0])), int(np.median(shapes[:, 1]))),
        smaller=int((sound.min(axis=1) < (data.side or 0)).sum()) if len(sound) else 0,
        cropped_away=_cropped_away(table, cropped, shapes, data.drawn_share),
        cropped=histogram(100 * cropped, 20),
        buckets=table.lines(1, data.name) if table else [],
        aspect=histogram(np.clip(shapes[:, 0] / shapes[:, 1], 0.25, 4.0), 24, logarithmic=True),
        resolution=histogram(np.sqrt(shapes.prod(axis=1)), 24),
        unreadable=unreadable,
        unread=dict(Counter(reason for _, reason in data.unread)),
        file_types=_file_types(data),
        looks=looks,
        duplicates=copies or looks.copies,
        near_duplicates=beyond_copies(looks.alike, copies or looks.copies),
        captions=len(captions),
        choices=dict(sorted(data.choices().items())),
        empty=sum(not text.strip() for text in captions),
        identical=len(captions) - len(set(captions)),
        length_in="tokens" if count_tokens else "words",
        lengths=histogram(counted, 24),
        median_length=int(np.median(counted)),
        longest=int(counted.max()),
        most_tokens=given.most_tokens,
        too_long=int((counted > given.most_tokens).sum()) if count_tokens else 0,
        different_tags=len(tags),
        tags_once=sum(count == 1 for count in tags.values()),
        top_tags=tags.most_common(60),
        everywhere=[tag for tag, count in tags.most_common(60) if count >= 0.95 * len(tag_rows.rows)],
        together=together(tag_rows, tags),
        changes=changes_of(data, given.seed),
        drawn_anew=data.captions_drawn_anew,
        score=_scores(data),
        limits=_limits(data),
        repeats=float(data.repeats().mean()),
        fingerprint=data.access.fingerprint(),
        mixing=mixing.rho if mixing else {},
        windows=_windows(mixing, data.window),
    )


def _waterfall(waterfall: Waterfall, unreadable: int) -> list[dict[str, str | int]]:
    """The steps, and the files that only their headers showed to be no pictures."""
    steps: list[dict[str, str | int]] = [
        {"name": step.name, "words": step.words, "count": step.count} for step in waterfall.steps
    ]
    more: dict[str, str | int] = {"name": "unreadable", "words": UNREADABLE_IMAGE, "count": unreadable}
    return [*steps, more] if unreadable else steps


def _limits(data: DatasetView) -> dict[str, list[float]]:
    """What the filters ask for, by the histogram in which it is drawn."""
    scores = [data.rules[name] for name in ("abs_min_score", "min_score") if name in data.rules]
    return {
        "aspect": list(data.rules.get("aspect_range", [])),
        "resolution": [data.side] if data.side else [],
        "score": scores,
    }


def _windows(mixing: ShardMixing | None, now: int) -> dict[str, int]:
    """The window that is asked for, where it is not all shards, and the one that steps of several sizes need."""
    needed = {f"for steps of {batch}": mixing.window(batch) for batch in STEPS} if mixing else {}
    return {**({"now": now} if now and mixing else {}), **needed}


def _table(data: DatasetView, buckets: Buckets) -> BucketTable:
    return assign(data.access.sizes(), data.access.repeats(), buckets)


def histogram(values: np.ndarray, bins: int, logarithmic: bool = False) -> Histogram:
    """Between the least and the greatest value; `logarithmic`: edges by a common factor."""
    low, high = float(values.min()), float(values.max())
    if high <= low:
        high = low + max(1e-3, abs(low) * 0.1)
    edges = np.geomspace(low, high, bins + 1) if logarithmic else np.linspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    return Histogram([round(edge, 4) for edge in edges.tolist()], np.histogram(values, edges)[0].tolist())


def _file_types(data: DatasetView) -> dict[str, int]:
    """{ending: files}"""
    return dict(Counter(extension(name) for name in data.names()).most_common()) if data.has_files else {}


def _cropped(sizes: np.ndarray, crop: bool, buckets: Buckets | None) -> np.ndarray:
    """(n,): the share of each picture that its centre square, or its bucket's shape, leaves out"""
    if buckets is not None:
        return fit_sizes(sizes, buckets.sizes(buckets.resolutions[0])).cropped
    if not crop:
        return np.zeros(len(sizes))
    shares: np.ndarray = 1 - sizes.min(axis=1) / sizes.max(axis=1)
    return shares


def _cropped_away(table: BucketTable | None, cropped: np.ndarray, sizes: np.ndarray, drawn_share: float) -> float:
    """Of all pixels, as often as each picture is read."""
    if table is None:
        return float(np.average(cropped, weights=sizes.prod(axis=1)))
    return 1 - (1 - table.cropped) * drawn_share


def _unreadable(data: DatasetView, sizes: np.ndarray) -> list[Row]:
    unreadable: list[Row] = []
    if not data.access.has("sizes"):
        return unreadable  # what cannot be read is reported with the first examples
    for index in np.flatnonzero(sizes.min(axis=1) <= 0).tolist():
        try:
            if data.has_files:
                header_size(data.file(index))
        except Fault as fault:
            unreadable.append((data.name(index), UNREADABLE_IMAGE, fault.why))
    return unreadable


def _duplicates(data: DatasetView) -> list[list[str]]:
    """Groups of files with the same bytes; only those of equal size are read, and not endlessly many."""
    if not data.has_files:
        return []
    by_size: dict[int, list[str]] = {}
    for name, size in zip(data.names(), data.file_bytes(), strict=True):
        by_size.setdefault(size, []).append(name)
    candidates = [name for group in by_size.values() if len(group) > 1 for name in group][:DUPLICATES_READ]
    by_content: dict[str, list[str]] = {}
    for name in candidates:
        by_content.setdefault(_digest(data.root / name), []).append(name)
    return [group for digest, group in by_content.items() if digest and len(group) > 1]


def _digest(path: Path) -> str:
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # it went away since the folder was read
        return ""


def _scores(data: DatasetView) -> Histogram | None:
    known = data.scores()
    if not len(known):
        return None
    known = np.clip(known, None, np.quantile(known, 0.99))
    far = known.min() > 0 and known.max() > 30 * known.min()  # most boards have many low scores and a long tail
    return histogram(known, 24, logarithmic=bool(far))


def sparkline(counts: Sequence[int]) -> str:
    """Counts as a row of blocks."""
    top = max(counts, default=0)
    return "".join("▁▂▃▄▅▆▇█"[min(7, 8 * count // (top + 1))] if count else " " for count in counts)
