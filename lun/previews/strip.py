"""`timeline.png`, put together from the sheets that a run has written so far."""

from collections.abc import Mapping, Sequence

from PIL import Image

from lun.previews.grid import write
from lun.previews.samples import SampleRecord
from lun.previews.timeline import Row, evenly, timeline

COLUMNS = 12


def draw_strip(
    record: SampleRecord, prompts: Sequence[str], seeds: Sequence[int], real: Mapping[str, Image.Image], footer: str
) -> None:
    """Rewrite `timeline.png` beside the sheets: raw and averaged weights of a few steps, then the real pictures.

    It has room for so many columns; where there are more prompts, the footer says that the sheets hold the others.
    """
    if len(prompts) > COLUMNS:
        footer = f"the first {COLUMNS} of {len(prompts)} prompts; {footer}"
    wanted = list(zip(prompts, seeds, strict=True))[:COLUMNS]
    samples = record.read()
    steps = evenly(sorted({s.step for s in samples if (s.prompt, s.seed) in wanted}))
    rows: list[Row] = []
    for step in steps:
        raw = record.tiles(samples, step, "raw", wanted)
        ema = record.tiles(samples, step, "ema", wanted)
        averaged = any(ema) and _bytes(ema) != _bytes(raw)
        rows.append(Row(f"step {step}", raw, note="raw weights" if averaged else ""))
        if averaged:
            rows.append(Row(f"step {step} EMA", ema, note="averaged", apart=False))
    if any(prompt in real for prompt, _ in wanted):
        rows.append(Row("real picture", [real.get(prompt) for prompt, _ in wanted]))
    tile = 64 if all(t.width <= 64 for row in rows for t in row.tiles if t) else 128
    strip = timeline(rows, [prompt for prompt, _ in wanted], footer, tile)
    write(strip, record.folder / "timeline.png")


def _bytes(tiles: Sequence[Image.Image | None]) -> list[bytes | None]:
    return [tile.tobytes() if tile else None for tile in tiles]
