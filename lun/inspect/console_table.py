"""The facts as lines for a console."""

from __future__ import annotations

from collections.abc import Iterator

from lun.inspect.statistics import DatasetFacts, sparkline


def lines_of(facts: DatasetFacts, folder: str) -> Iterator[str]:
    """One line or a few for each kind of fact, labels in one column."""
    for label, *texts in _rows(facts):
        for number, text in enumerate(texts):
            yield f"{label if number == 0 else '':<9} {text}"
    yield f"{'report':<9} {folder}/"


def _rows(facts: DatasetFacts) -> Iterator[tuple[str, ...]]:
    yield "layout", facts.layout
    removed = [f"- {step['count']:>8,}  {step['words']}" for step in facts.waterfall if step["count"]]
    yield "usable", f"{facts.usable:,} of {facts.total:,}", *removed
    if facts.unreadable:
        yield "broken", *(f"{path}: {detail}" for path, _, detail in facts.unreadable[:5])
    if facts.unread:
        yield "unread", " · ".join(f"{reason} {count:,}" for reason, count in facts.unread.items())
    width, height = facts.median_size
    yield "sizes", f"median {width} x {height}   enlarged: {facts.smaller:,}   cropped away: {facts.cropped_away:.1%}"
    aspect = facts.aspect
    yield "aspect", f"{aspect.edges[0]:.2f} {sparkline(aspect.counts)} {aspect.edges[-1]:.2f}"
    if facts.buckets:
        yield "buckets", *facts.buckets
    yield "captions", _captions(facts)
    if facts.top_tags:
        top = " · ".join(f"{tag} {count:,}" for tag, count in facts.top_tags[:8])
        yield "tags", f"{facts.different_tags:,} different; top: {top} · seen once: {facts.tags_once:,}"
    if facts.score:
        yield "score", f"{facts.score.edges[0]:g} {sparkline(facts.score.counts)} {facts.score.edges[-1]:g}"
    if facts.mixing:
        yield "mixing", _mixing(facts)
    kinds = " · ".join(f"{kind} {count:,}" for kind, count in facts.file_types.items())
    yield "files", f"{kinds}   repeats {facts.repeats:g} on average", *_care(facts)
    copies, alike = (sum(len(group) - 1 for group in groups) for groups in (facts.duplicates, facts.near_duplicates))
    among = f" among {facts.looks.pictures:,}" if facts.looks.pictures < facts.usable else ""
    yield "twice", f"exact duplicates {copies:,} · look alike {alike:,}{among}"


def _mixing(facts: DatasetFacts) -> str:
    between = " · ".join(f"{name} {rho:.2f}" for name, rho in facts.mixing.items())
    windows = ", ".join(f"{count:,} {when}" for when, count in facts.windows.items())
    return f"share of the variance between shards: {between}   window: {windows}"


def _captions(facts: DatasetFacts) -> str:
    cut = (
        f" · > {facts.most_tokens}: {facts.too_long / max(1, facts.captions):.0%}"
        if facts.length_in == "tokens"
        else ""
    )
    return (
        f"{facts.length_in}: median {facts.median_length}, max {facts.longest}{cut}"
        f" · empty: {facts.empty:,} · identical: {facts.identical:,}{_choices(facts)}"
    )


def _choices(facts: DatasetFacts) -> str:
    """How many pictures have several captions, where any has."""
    return "".join(f" · {count} to draw from: {pictures:,}" for count, pictures in facts.choices.items() if count > 1)


def _care(facts: DatasetFacts) -> list[str]:
    kinds = " · ".join(f"{kind} {count:,}" for kind, count in facts.looks.kinds.items())
    return [kinds] if kinds else []
