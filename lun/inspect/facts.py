"""What can be said about a data set in numbers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ldm.diffusion.draws import Draws
from ldm.errors import Fault
from lun.data.images import centre_box, header_size
from lun.data.listing import extension
from lun.data.local import Local
from lun.inspect.rejected import Row

CAPTIONS_READ = 20_000
DUPLICATES_READ = 20_000


@dataclass(frozen=True)
class Histogram:
    """`counts` of values between neighbouring `edges`."""

    edges: list[float]
    counts: list[int]


@dataclass(frozen=True)
class Facts:
    """Numbers of one data set; everything is plain, so that it can be written as JSON."""

    layout: str
    total: int
    usable: int
    waterfall: list[dict[str, str | int]]
    median_size: tuple[int, int]
    smaller: int
    cropped_away: float
    aspect: Histogram
    resolution: Histogram
    unreadable: list[Row]
    file_types: dict[str, int]
    duplicates: list[list[str]]
    captions: int
    empty: int
    identical: int
    length_in: str
    lengths: Histogram
    median_length: int
    longest: int
    too_long: int
    different_tags: int
    tags_once: int
    top_tags: list[tuple[str, int]]
    everywhere: list[str]
    score: Histogram | None
    repeats: float
    fingerprint: str
    warnings: list[str] = field(default_factory=list)


LIMIT = 77
"""tokens that CLIP reads, both ends included"""


def facts_of(data: Local, seed: int, count_tokens: Callable[[str], int] | None) -> Facts:
    """Look at all headers and up to 20,000 captions."""
    sizes = data.sizes()
    sound = sizes[sizes.min(axis=1) > 0].astype(np.int64)
    waterfall = data.selection.waterfall
    captions = _captions(data, seed)
    lengths = [count_tokens(text) if count_tokens else len(text.split()) for text in captions]
    counted = np.array(lengths or [0])
    tags = _tag_counts(data)
    shapes = sound if len(sound) else np.ones((1, 2), np.int64)
    side = data.size or 0
    return Facts(
        layout=data.selection.found.words,
        total=waterfall.total,
        usable=waterfall.left,
        waterfall=[{"name": step.name, "words": step.words, "count": step.count} for step in waterfall.steps],
        median_size=(int(np.median(shapes[:, 0])), int(np.median(shapes[:, 1]))),
        smaller=int((sound.min(axis=1) < side).sum()) if len(sound) else 0,
        cropped_away=_cropped_away(shapes) if data.crop else 0.0,
        aspect=histogram(np.clip(shapes[:, 0] / shapes[:, 1], 0.25, 4.0), 24, logarithmic=True),
        resolution=histogram(np.sqrt(shapes.prod(axis=1)), 24),
        unreadable=_unreadable(data, sizes),
        file_types=dict(Counter(extension(name) for name in data.names()).most_common()),
        duplicates=_duplicates(data),
        captions=len(captions),
        empty=sum(not text.strip() for text in captions),
        identical=len(captions) - len(set(captions)),
        length_in="tokens" if count_tokens else "words",
        lengths=histogram(counted, 24),
        median_length=int(np.median(counted)),
        longest=int(counted.max()),
        too_long=int((counted > LIMIT).sum()),
        different_tags=len(tags),
        tags_once=sum(count == 1 for count in tags.values()),
        top_tags=tags.most_common(60),
        everywhere=[tag for tag, count in tags.most_common(60) if count >= 0.95 * len(data)],
        score=_scores(data),
        repeats=float(data.repeats().mean()),
        fingerprint=data.fingerprint(),
    )


def histogram(values: np.ndarray, bins: int, logarithmic: bool = False) -> Histogram:
    """Between the least and the greatest value; `logarithmic`: edges by a common factor."""
    low, high = float(values.min()), float(values.max())
    if high <= low:
        high = low + max(1e-3, abs(low) * 0.1)
    edges = np.geomspace(low, high, bins + 1) if logarithmic else np.linspace(low, high, bins + 1)
    edges[0], edges[-1] = low, high
    return Histogram([round(edge, 4) for edge in edges.tolist()], np.histogram(values, edges)[0].tolist())


def _captions(data: Local, seed: int) -> list[str]:
    """One draw for each of so many examples, spread evenly."""
    step = max(1, len(data) // CAPTIONS_READ)
    return [data.caption(index, Draws(seed, index)) for index in range(0, len(data), step)]


def _cropped_away(sizes: np.ndarray) -> float:
    """Share of all pixels that the centre squares leave out."""
    kept = np.array([centre_box(int(width), int(height)) for width, height in sizes[:CAPTIONS_READ]])
    area = (kept[:, 2] - kept[:, 0]) * (kept[:, 3] - kept[:, 1])
    return float(1 - area.sum() / sizes[:CAPTIONS_READ].prod(axis=1).sum())


def _unreadable(data: Local, sizes: np.ndarray) -> list[Row]:
    found: list[Row] = []
    for index in np.flatnonzero(sizes.min(axis=1) <= 0).tolist():
        try:
            header_size(data.path(index))
        except Fault as fault:
            found.append((data.name(index), "unreadable image", fault.why))
    return found


def _duplicates(data: Local) -> list[list[str]]:
    """Groups of files with the same bytes; only those of equal size are read, and not endlessly many."""
    names, sizes = data.names(), data.file_bytes()
    by_size: dict[int, list[str]] = {}
    for name, size in zip(names, sizes.tolist(), strict=True):
        by_size.setdefault(size, []).append(name)
    candidates = [name for group in by_size.values() if len(group) > 1 for name in group][:DUPLICATES_READ]
    by_content: dict[str, list[str]] = {}
    for name in candidates:
        by_content.setdefault(_digest(data.root / name), []).append(name)
    return [group for digest, group in by_content.items() if digest and len(group) > 1]


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:  # it went away since the folder was read
        return ""


def _tag_counts(data: Local) -> Counter[str]:
    table = data.table
    used = table.tags.take(data.rows).values if len(table.tags.values) else np.zeros(0, np.int64)
    counts = np.bincount(used, minlength=len(table.words))
    return Counter({word: int(count) for word, count in zip(table.words, counts, strict=False) if count})


def _scores(data: Local) -> Histogram | None:
    known = data.table.score[data.rows]
    known = known[~np.isnan(known)]
    return histogram(np.clip(known, None, np.quantile(known, 0.99)), 24) if len(known) else None


def sparkline(counts: Sequence[int]) -> str:
    """Counts as a row of blocks."""
    top = max(counts, default=0)
    return "".join("▁▂▃▄▅▆▇█"[min(7, 8 * count // (top + 1))] if count else " " for count in counts)
