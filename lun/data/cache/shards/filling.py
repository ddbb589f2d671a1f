"""Filling a folder of shards: every rank computes its share of what is missing, and says how far it is."""

import logging
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from tqdm import tqdm

log = logging.getLogger(__name__)

FLUSH_SECONDS = 120.0
LOG_SECONDS = 10.0

Batch = TypeVar("Batch")
Missing = TypeVar("Missing")


@dataclass(frozen=True)
class Share:
    """Which part of the work is this process's, and how it waits for the others."""

    rank: int = 0
    world_size: int = 1
    wait: Callable[[], None] = lambda: None


class Flushed(Protocol):
    """What takes in results, and is asked to write them down."""

    def flush(self) -> None: ...


def fill_together(
    missing: Callable[[], Sequence[Missing]],
    fill: Callable[[Sequence[Missing]], None],
    folder: Path,
    what: str,
    share: Share,
) -> None:
    """Every rank fills its share; then whoever sees no shared folder fills the rest for itself.

    missing  what the folder has not got
    what     what is computed, in the plural
    """
    absent = missing()
    if absent and share.rank == 0:
        log.info("cache    %s %s to compute, kept in %s", f"{len(absent):,}", what, folder)
    fill(absent[share.rank :: share.world_size])
    share.wait()
    if share.world_size > 1 and (rest := missing()):
        fill(rest)
    share.wait()


def steadily(batches: Iterable[Batch], add: Callable[[Batch], int], writer: Flushed, total: int, what: str) -> None:
    """Take in batch after batch, log how far it is, and write at least every two minutes.

    add  computes one batch, hands it to `writer`, and returns how many of the `total` entries it stood for
    """
    begun = time.monotonic()
    done, reported, flushed = 0, begun, begun
    shows = sys.stdout.isatty() and log.isEnabledFor(logging.INFO)
    with tqdm(total=total, desc=f"cache    {what}", disable=not shows, leave=False, file=sys.stdout) as bar:
        for batch in batches:
            count = add(batch)
            done += count
            bar.update(count)
            now = time.monotonic()
            if now - reported > LOG_SECONDS and not shows:
                rate = done / (now - begun)
                left = (total - done) / rate / 60
                log.info("cache    %s of %s %s, %.1f a second, %.0f min left", *_counts(done, total), what, rate, left)
                reported = now
            if now - flushed > FLUSH_SECONDS:
                writer.flush()
                flushed = now
    writer.flush()


def _counts(done: int, total: int) -> tuple[str, str]:
    return f"{done:,}", f"{total:,}"
