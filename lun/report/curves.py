"""Metrics of a run as curves, from `metrics.jsonl` as it is: being written, torn, or of 200,000 steps."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ldm.plain import parse_json, require_ordinary

FILE = "metrics.jsonl"
POINTS = 1500
"""Of one curve; together all curves have at most `ALL_POINTS`."""
ALL_POINTS = 150_000
NAMES = 600
LARGEST = 256 << 20
"""Bytes at the end of the file that are read."""
RECENT = 40
"""Lines by which the present speed is judged."""
TAIL = 16 << 10
"""Bytes at the end of the file in which a glance finds these."""


@dataclass(frozen=True)
class MetricCurve:
    """A metric over steps, which rise; None where it was not a finite number."""

    steps: list[int]
    values: list[float | None]

    @property
    def finite(self) -> list[float]:
        return [value for value in self.values if value is not None]


@dataclass(frozen=True)
class Curves:
    """All metrics of a run.

    step, time        of the newest line, seconds since 1970; None where nothing was logged
    seconds_a_step    lately, saving and sampling included
    left_out          what the curves do not show, in words
    """

    by_name: dict[str, MetricCurve] = field(default_factory=dict)
    step: int | None = None
    time: float | None = None
    seconds_a_step: float | None = None
    left_out: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Line:
    step: int
    time: float | None
    metrics: dict[str, float | None]


def read_curves(run: Path) -> Curves:
    """The curves of the run directory `run`; a file that is missing or no file gives none, and says so.

    Of lines with the same metrics more than `POINTS` are thinned evenly, the last one kept. Where steps fall, the run
    went on from an earlier checkpoint: what that undid is left out.
    """
    try:
        raw, skipped = _lines(run / FILE)
    except FileNotFoundError:
        return Curves(left_out=["nothing was logged so far"])
    except (OSError, ValueError) as error:
        return Curves(left_out=[f"{FILE} cannot be read: {error}"])
    kept, of_all = _thinned(raw)
    lines, broken = _parsed(kept)
    going = list(_not_undone(lines))
    by_name, more = _curves(going)
    undone = len(lines) - len(going)
    remarks = {
        f"the first {skipped:,} bytes of {FILE}": skipped,
        f"{broken:,} broken line{'s' * (broken != 1)} of {FILE}": broken,
        f"{len(kept):,} of {of_all:,} lines of {FILE} are drawn, evenly chosen": len(kept) < of_all,
        f"{undone:,} line{'s' * (undone != 1)} that a resume from an earlier step undid": undone,
        f"{more:,} of {len(by_name) + more:,} metrics": more,
        **{f"{name} was not a finite number {count:,} times": count for name, count in _odd(by_name)},
    }
    newest = going[-1] if going else None
    return Curves(
        by_name,
        newest.step if newest else None,
        newest.time if newest else None,
        _pace(going[-RECENT:]),
        [words for words, so in remarks.items() if so],
    )


def glance(run: Path) -> Curves:
    """The last values of the metrics of a run, its step and its pace, from the end of the file alone."""
    try:
        raw, _ = _lines(run / FILE, TAIL)
    except (OSError, ValueError):
        return Curves()
    lines, _ = _parsed(raw)
    going = list(_not_undone(lines))[-RECENT:]
    newest = going[-1] if going else None
    return Curves(_curves(going)[0], newest.step if newest else None, newest.time if newest else None, _pace(going))


def _lines(path: Path, most: int = LARGEST) -> tuple[list[bytes], int]:
    """The lines that are whole, and how many bytes at the beginning were not read."""
    size = require_ordinary(path)
    with path.open("rb") as stream:
        skipped = max(0, size - most)
        stream.seek(skipped)
        text = stream.read(most)
    lines = text[: text.rfind(b"\n") + 1].splitlines()
    return (lines[1:] if skipped else lines), skipped


def _kind(line: bytes) -> bytes:
    """What distinguishes lines without reading them: the name of the first metric, after step and time."""
    parts = line.split(b'"', 6)
    return parts[5] if len(parts) > 5 else b""


def _thinned(lines: Sequence[bytes]) -> tuple[list[bytes], int]:
    """Evenly chosen lines of each kind, in their order, and of how many."""
    if len(lines) <= POINTS:
        return list(lines), len(lines)
    kinds = [_kind(line) for line in lines]
    strides = {kind: -(-count // POINTS) for kind, count in Counter(kinds).items()}
    last = {kind: place for place, kind in enumerate(kinds)}
    seen: Counter[bytes] = Counter()
    kept = []
    for place, (kind, line) in enumerate(zip(kinds, lines, strict=True)):
        if seen[kind] % strides[kind] == 0 or last[kind] == place:
            kept.append(line)
        seen[kind] += 1
    return kept, len(lines)


def _parsed(lines: Iterable[bytes]) -> tuple[list[_Line], int]:
    read = [_line(line) for line in lines if line.strip()]
    whole = [line for line in read if line is not None]
    return whole, len(read) - len(whole)


def _line(text: bytes) -> _Line | None:
    try:
        row: Any = parse_json(text)
        step, time = int(row.pop("step")), row.pop("time", None)
        metrics = {str(name): number for name, value in row.items() if (number := _number(value)) is not ...}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    return _Line(step, time if isinstance(time, int | float) else None, metrics)


def _number(value: object) -> Any:
    """A float; None for one that is not finite, which the logger writes as a word; `...` for what is no number."""
    if value in ("nan", "inf", "-inf"):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return ...
    return float(value) if math.isfinite(value) else None


def _not_undone(lines: Sequence[_Line]) -> Iterator[_Line]:
    """The lines below whose step no later line falls."""
    kept: list[_Line] = []
    lowest = math.inf
    for line in reversed(lines):
        if line.step <= lowest:
            kept.append(line)
            lowest = line.step
    yield from reversed(kept)


def _curves(lines: Sequence[_Line]) -> tuple[dict[str, MetricCurve], int]:
    """Curves by name, each thinned so that all fit in a page, and how many names were left out."""
    found: dict[str, dict[int, float | None]] = defaultdict(dict)
    for line in lines:
        for name, value in line.metrics.items():
            found[name][line.step] = value
    names = list(found)[:NAMES]
    most = max(2, min(POINTS, ALL_POINTS // max(1, len(names))))
    return {name: _fewer(found[name], most) for name in names}, len(found) - len(names)


def _fewer(values: dict[int, float | None], most: int) -> MetricCurve:
    steps = list(values)
    if len(steps) > most:
        stride = -(-len(steps) // most)
        steps = sorted({*steps[::stride], steps[-1]})
    return MetricCurve(steps, [values[step] for step in steps])


def _odd(curves: dict[str, MetricCurve]) -> Iterator[tuple[str, int]]:
    for name, curve in curves.items():
        if count := curve.values.count(None):
            yield name, count


def _pace(lines: Sequence[_Line]) -> float | None:
    """Seconds a step over these lines."""
    timed = [(line.step, line.time) for line in lines if line.time is not None]
    if len(timed) < 2 or timed[-1][0] <= timed[0][0]:
        return None
    seconds = (timed[-1][1] - timed[0][1]) / (timed[-1][0] - timed[0][0])
    return seconds if math.isfinite(seconds) and seconds > 0 else None
