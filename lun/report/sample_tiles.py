"""Samples of a run over its steps as small pictures, as many as a page and a second have room for."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from lun.pages.document import data_url
from lun.previews.samples import Sample, SampleRecord

PROMPTS = 24
STEPS = 40
SIDE = 224
FEW_PIXELS = 64
"""A picture of at most so many pixels a side is kept to the pixel."""
ROOM = 3_000_000
"""Bytes of all pictures in a page."""
SECONDS = 0.9
"""For cutting them out, once at least one step is shown."""

Key = tuple[str, int, int, str, int, str]


@dataclass(frozen=True)
class SampledPrompt:
    """One prompt with its seed, which is drawn again and again."""

    text: str
    seed: int


@dataclass(frozen=True)
class SampleStrip:
    """What was sampled: `tiles[step][weights][prompt]` is the data URL of a picture or None.

    weights   "raw", and "ema" where averaged weights were drawn too
    """

    prompts: list[SampledPrompt] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    tiles: dict[int, dict[str, list[str | None]]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)


class TileCache:
    """Pictures that were cut out already: a page that is renewed again and again cuts out the new ones alone."""

    def __init__(self) -> None:
        self._known: dict[Key, list[str | None]] = {}

    def tiles(
        self, record: SampleRecord, samples: Sequence[Sample], step: int, weights: str, prompts: Sequence[SampledPrompt]
    ) -> list[str | None]:
        """The pictures of one step as data URLs, None where one is not to be had."""
        key = self._key(record, samples, step, weights, prompts)
        if key is None:
            return [None] * len(prompts)
        if key not in self._known:
            wanted = [(prompt.text, prompt.seed) for prompt in prompts]
            self._known[key] = [_small(tile) for tile in record.tiles(samples, step, weights, wanted)]
        return self._known[key]

    def knows(
        self, record: SampleRecord, samples: Sequence[Sample], step: int, weights: str, prompts: Sequence[SampledPrompt]
    ) -> bool:
        """Whether these cost nothing."""
        return self._key(record, samples, step, weights, prompts) in {*self._known, None}

    @staticmethod
    def _key(
        record: SampleRecord, samples: Sequence[Sample], step: int, weights: str, prompts: Sequence[SampledPrompt]
    ) -> Key | None:
        file = next((one.file for one in samples if one.step == step and one.weights == weights), None)
        path = sheet_path(record, file)
        if path is None:
            return None
        status = path.stat()
        return str(path), status.st_mtime_ns, status.st_size, weights, step, repr(prompts)


def sheet_path(record: SampleRecord, file: str | None) -> Path | None:
    """The sheet of that name in the record's folder; None for a name that leads out of it, and where there is none."""
    if not file or Path(file).name != file:
        return None
    path = record.folder / file
    try:
        return path if path.is_file() and not path.is_symlink() else None
    except OSError:  # no name of a file
        return None


def sample_strip(run: Path, cache: TileCache, room: int = ROOM) -> SampleStrip:
    """The samples of a run directory, the newest step, the first, then those between, as long as there is room."""
    record = SampleRecord(run / "images" / "samples")
    known = record.read()
    samples = [one for one in known if sheet_path(record, one.file)]
    if not samples:
        return SampleStrip(left_out=_lost(known, samples))
    newest = samples[-1].step
    pairs = dict.fromkeys((one.prompt, one.seed) for one in samples if one.step == newest)
    prompts = [SampledPrompt(text, seed) for text, seed in pairs]
    shown, steps = prompts[:PROMPTS], sorted({one.step for one in samples})
    weights = [name for name in ("raw", "ema") if any(one.weights == name for one in samples)]
    tiles = _as_many_as_fit(record, samples, list(_from_coarse_to_fine(steps))[:STEPS], weights, shown, cache, room)
    left_out = [
        *_lost(known, samples),
        *([f"{len(prompts) - PROMPTS:,} of {len(prompts):,} prompts"] if len(prompts) > PROMPTS else []),
        *([f"samples of {len(steps) - len(tiles):,} of {len(steps):,} steps"] if len(tiles) < len(steps) else []),
    ]
    if unread := sum(tile is None for each in tiles.values() for row in each.values() for tile in row):
        left_out.append(f"{unread:,} sample{'s' * (unread != 1)} that cannot be read")
    return SampleStrip(shown, sorted(tiles), weights, tiles, left_out)


def strip_data(strip: SampleStrip) -> dict[str, Any]:
    """The strip as plain values: `tiles` are places in `urls`, in which each picture stands once, or None."""
    places: dict[str, int] = {}
    tiles = {
        step: {
            weights: [None if url is None else places.setdefault(url, len(places)) for url in row]
            for weights, row in each.items()
        }
        for step, each in strip.tiles.items()
    }
    prompts = [asdict(prompt) for prompt in strip.prompts]
    return {"prompts": prompts, "steps": strip.steps, "weights": strip.weights, "tiles": tiles, "urls": list(places)}


def _lost(known: Sequence[Sample], samples: Sequence[Sample]) -> list[str]:
    gone = len({one.file for one in known}) - len({one.file for one in samples})
    return [f"{gone:,} sheet{'s' * (gone != 1)} of samples that are not there any more"] if gone else []


def _as_many_as_fit(
    record: SampleRecord,
    samples: Sequence[Sample],
    steps: Sequence[int],
    weights: Sequence[str],
    prompts: Sequence[SampledPrompt],
    cache: TileCache,
    room: int,
) -> dict[int, dict[str, list[str | None]]]:
    tiles: dict[int, dict[str, list[str | None]]] = {}
    ends = time.monotonic() + SECONDS
    for step in steps:
        free = all(cache.knows(record, samples, step, name, prompts) for name in weights)
        if tiles and not free and time.monotonic() > ends:
            continue
        drawn = {name: cache.tiles(record, samples, step, name, prompts) for name in weights}
        size = sum(len(tile or "") for row in drawn.values() for tile in row)
        if tiles and size > room:
            break
        tiles[step] = drawn
        room -= size
    return tiles


def _from_coarse_to_fine(steps: Sequence[int]) -> Iterator[int]:
    """The last, the first, then always the middle of the widest gap."""
    last = len(steps) - 1
    yield steps[last]
    gaps = [(0, last)]
    if last:
        yield steps[0]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            yield steps[middle]
            gaps += [(low, middle), (middle, high)]


def _small(tile: Image.Image | None) -> str | None:
    if tile is None:
        return None
    if max(tile.size) <= FEW_PIXELS:
        return data_url(tile, "PNG")
    tile.thumbnail((SIDE, SIDE))
    return data_url(tile)
