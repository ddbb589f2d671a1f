"""`inspect` and `plan`: what snapshots reach, as tables and as a picture."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from ldm.ema.posthoc import Fit, PowerProfile, fit
from ldm.ema.profiles import gamma_of_sigma_rel
from ldm.errors import Fault
from lun.posthoc_ema.chart import Curve, draw
from lun.posthoc_ema.library import Library, profile_of

TARGETS = (0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.25)
HEADER = "  width   profile error   weight error   rounding x   sum |c|"


def inspect(arguments: argparse.Namespace) -> None:
    """Print which snapshots a run has, and the predicted error of some widths at its last one."""
    library = Library.open(arguments.run)
    print(f"{library.folder}: averages count from step {library.offset}")
    for track in sorted({one.about.track for one in library.snapshots}):
        own = [one.about for one in library.snapshots if one.about.track == track]
        steps = " ".join(str(about.last_update) for about in own)
        print(f"  {track}: {len(own)} snapshots, every {own[0].every} steps updated, at steps {steps}")
    print(f"\nat step {library.last}:\n{HEADER}")
    stored = [profile_of(one) for one in library.snapshots]
    for line in _table(stored, TARGETS, library.last - library.offset):
        print(line)


def plan(arguments: argparse.Namespace) -> None:
    """Print the predicted error, conditioning and size on disk of a choice of widths; `--png` draws it."""
    require_widths([*arguments.widths, *arguments.targets])
    if arguments.count < 2:
        raise Fault("CLI05", "reconstruction needs two snapshots or more", where="--count", fix="--count 16")
    stored = even(arguments.widths, arguments.count)
    files = len(stored)
    size = files * arguments.parameters * 2 + arguments.parameters * 4
    print(f"{files} snapshots ({len(arguments.widths)} widths x {arguments.count}), {size / 1e9:.1f} GB with the base")
    print(HEADER)
    for line in _table(stored, arguments.targets, 1.0):
        print(line)
    if arguments.png:
        draw_plan(Path(arguments.png), arguments.widths, arguments.count)
        print(f"drawn    {arguments.png}")


def draw_plan(path: Path, tracked: Sequence[float], count: int) -> None:
    """The profile error over the wanted width, for half, once and twice as many snapshots."""
    wanted = [0.02 * (0.27 / 0.02) ** (i / 119) for i in range(120)]
    curves = []
    for number in (count // 2, count, 2 * count):
        stored = even(tracked, number)
        errors = [100 * max(fit(stored, PowerProfile(width, 1.0)).profile_error, 1e-4) for width in wanted]
        curves.append(Curve(f"{number} snapshots of {len(tracked)} widths", wanted, errors))
    names = ", ".join(f"{width:g}" for width in tracked)
    draw(
        path, curves, f"what snapshots of widths {names} can reconstruct", "wanted width", "profile error, %", level=5.0
    )


def even(tracked: Sequence[float], count: int) -> list[PowerProfile]:
    """Evenly spaced snapshots of a run of length 1."""
    return [PowerProfile(width, (k + 1) / count) for k in range(count) for width in tracked]


def require_widths(given: Sequence[float]) -> None:
    """`Fault` CLI05 for a width that no power function has."""
    for width in given:
        try:
            gamma_of_sigma_rel(width)
        except ValueError as error:
            raise Fault("CLI05", f"{width:g} is no width of an average", why=str(error), fix="--width 0.10") from error


def describe(name: str, result: Fit) -> str:
    """One row below `HEADER`."""
    return (
        f"  {name:<7} {100 * result.profile_error:10.3f} % {100 * result.weight_error:12.3f} %"
        f" {result.amplification:12.2f} {result.absolute_sum:9.1f}"
    )


def _table(stored: Sequence[PowerProfile], targets: Sequence[float], time: float) -> Iterator[str]:
    for width in targets:
        yield describe(f"{width:.4g}", fit(stored, PowerProfile(width, time)))
