"""The strip of samples over time: a column for each prompt, a row for each step, the real picture below."""

from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw

from lun.previews.grid import DARK, GREY, WHITE, Font, fitted, font, shortened, wrapped

LETTERS = 12
LINE = 15
GAP = 6
APART = 16
MARGIN = 12


@dataclass(frozen=True)
class Row:
    """One row of the strip: `label` (and, fainter, `note` below it) at the left, a tile or None for each column.

    apart  leave more room above, as between two steps
    """

    label: str
    tiles: Sequence[Image.Image | None]
    note: str = ""
    apart: bool = True


def timeline(rows: Sequence[Row], captions: Sequence[str], footer: str = "", tile: int = 64) -> Image.Image:
    """The strip on white; tiles are about `tile` pixels wide, the captions stand over their columns in two lines."""
    face = font(LETTERS)
    shown = [[fitted(t, tile) if t else None for t in row.tiles] for row in rows]
    sizes = [t.size for tiles in shown for t in tiles if t] or [(tile, tile)]
    width, height = max(s[0] for s in sizes), max(s[1] for s in sizes)
    left = MARGIN + round(max((face.getlength(text) for r in rows for text in (r.label, r.note)), default=0)) + 10
    tops = _tops(rows, MARGIN + 2 * LINE + 4, height)
    bottom = tops[-1] + height if rows else MARGIN + 2 * LINE
    across = left + len(captions) * (width + GAP) - GAP + MARGIN
    sheet = Image.new("RGB", (across, bottom + (LINE + 10 if footer else 0) + MARGIN), WHITE)
    pen = ImageDraw.Draw(sheet)
    columns = [left + index * (width + GAP) for index in range(len(captions))]
    for x, head in zip(columns, heads(captions, face, width + GAP - 4), strict=True):
        for line, (text, ink) in enumerate(zip(head, (DARK, GREY), strict=False)):
            pen.text((x + width / 2, MARGIN + line * LINE), text, fill=ink, font=face, anchor="ma")
    for row, tiles, y in zip(rows, shown, tops, strict=True):
        _label(pen, row, face, left - 10, y + height / 2)
        for x, picture in zip(columns, tiles, strict=False):
            if picture:
                sheet.paste(picture, (x, y))
    if footer:
        pen.text((left, bottom + 10), shortened(footer, face, across - left - MARGIN), fill=GREY, font=face)
    return sheet


def heads(captions: Sequence[str], face: Font, width: float) -> list[list[str]]:
    """Each caption in two lines, broken at its first comma where all have one.

    A word that ends every second line, such as "background", distinguishes nothing and is left out.
    """
    pairs = [caption.split(",", 1) for caption in captions]
    if not all(len(pair) == 2 for pair in pairs):
        return [wrapped(caption, face, width - GAP, 2) for caption in captions]
    seconds = [pair[1].split() for pair in pairs]
    while len(seconds) > 1 and min(map(len, seconds)) > 1 and len({words[-1] for words in seconds}) == 1:
        seconds = [words[:-1] for words in seconds]
    lines = [(pair[0].strip(), " ".join(words)) for pair, words in zip(pairs, seconds, strict=True)]
    return [[shortened(text, face, width) for text in pair] for pair in lines]


def evenly(steps: Sequence[int], count: int = 5) -> list[int]:
    """At most `count` of the steps, evenly chosen, the first and the last among them."""
    last = len(steps) - 1
    if last < count:
        return list(steps)
    return [steps[round(index * last / (count - 1))] for index in range(count)]


def _tops(rows: Sequence[Row], first: int, height: int) -> list[int]:
    tops: list[int] = []
    for row in rows:
        tops.append(tops[-1] + height + (APART if row.apart else GAP) if tops else first)
    return tops


def _label(pen: ImageDraw.ImageDraw, row: Row, face: Font, right: float, middle: float) -> None:
    up = LINE / 2 if row.note else 0
    pen.text((right, middle - up), row.label, fill=DARK, font=face, anchor="rm")
    if row.note:
        pen.text((right, middle + LINE / 2), row.note, fill=GREY, font=face, anchor="rm")
