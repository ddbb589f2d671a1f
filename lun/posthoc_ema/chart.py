"""A picture of curves over logarithmic axes, in a few lines and without a plotting library."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SIZE = (880, 520)
BOX = (80, 50, 850, 460)  # of the axes: left, top, right, bottom
LEGEND = (360, 70)
COLOURS = ("#4269d0", "#efb118", "#3ca951", "#ff725c", "#9467bd")
GREY, PALE = "#555555", "#e4e4e4"


@dataclass(frozen=True)
class Curve:
    """Points (x, y), x above 0."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Axis:
    """Where values of [low, high] lie between two pixels."""

    low: float
    high: float
    begin: int
    end: int
    logarithmic: bool = True

    def place(self, value: float) -> float:
        low, high, at = (self._scaled(v) for v in (self.low, self.high, min(max(value, self.low), self.high)))
        return self.begin + (at - low) / (high - low) * (self.end - self.begin)

    def ticks(self) -> Iterator[float]:
        if self.logarithmic:
            for exponent in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
                steps = (1, 2, 5) if self.high / self.low < 1e3 else (1,)
                yield from (m * 10.0**exponent for m in steps if self.low <= m * 10.0**exponent <= self.high)
        else:
            yield from (self.low + (self.high - self.low) * i / 5 for i in range(6))

    def _scaled(self, value: float) -> float:
        return math.log(value) if self.logarithmic else value


def draw(
    path: Path, curves: Sequence[Curve], title: str, x: str, y: str, *, level: float | None = None, log_y: bool = True
) -> None:
    """Draw `curves` to the PNG `path`; `level` is a dashed line across."""
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    across, up = _axes(curves, log_y)
    _frame(pen, across, up)
    if level is not None and up.low < level < up.high:
        height = up.place(level)
        for begin in range(BOX[0], BOX[2], 10):
            pen.line((begin, height, begin + 5, height), fill=GREY)
    for number, curve in enumerate(curves):
        colour = COLOURS[number % len(COLOURS)]
        points = [(across.place(a), up.place(b)) for a, b in zip(curve.x, curve.y, strict=True)]
        pen.line(points, fill=colour, width=3, joint="curve")
        if len(points) < 40:
            for a, b in points:
                pen.ellipse((a - 4, b - 4, a + 4, b + 4), fill=colour)
        left, height = LEGEND[0], LEGEND[1] + 20 * number
        pen.line((left, height, left + 26, height), fill=colour, width=3)
        pen.text((left + 34, height), curve.name, fill="black", font=_font(14), anchor="lm")
    pen.text((SIZE[0] / 2, 26), title, fill="black", font=_font(18), anchor="mm")
    pen.text((SIZE[0] / 2, SIZE[1] - 16), x, fill="black", font=_font(14), anchor="mm")
    pen.text((12, 44), y, fill="black", font=_font(14), anchor="ls")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def _axes(curves: Sequence[Curve], log_y: bool) -> tuple[Axis, Axis]:
    xs = [value for curve in curves for value in curve.x]
    ys = [value for curve in curves for value in curve.y]
    low, high = min(ys), max(ys)
    margin = 0.08 * (high - low) or max(abs(high), 1.0) * 0.01
    across = Axis(min(xs), max(max(xs), min(xs) * 1.01), BOX[0], BOX[2])
    if log_y:
        return across, Axis(low, max(high, low * 10), BOX[3], BOX[1])
    return across, Axis(low - margin, high + margin, BOX[3], BOX[1], logarithmic=False)


def _frame(pen: ImageDraw.ImageDraw, across: Axis, up: Axis) -> None:
    for value in across.ticks():
        place = across.place(value)
        pen.line((place, BOX[1], place, BOX[3]), fill=PALE)
        pen.text((place, BOX[3] + 6), f"{value:.4g}", fill=GREY, font=_font(13), anchor="ma")
    for value in up.ticks():
        place = up.place(value)
        pen.line((BOX[0], place, BOX[2], place), fill=PALE)
        pen.text((BOX[0] - 6, place), f"{value:.4g}", fill=GREY, font=_font(13), anchor="rm")
    pen.rectangle(BOX, outline=GREY)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
