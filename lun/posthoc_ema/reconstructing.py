"""`reconstruct`: how well widths can be had, and files of those weights."""

import argparse
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from ldm.ema.posthoc import Fit
from ldm.errors import Fault
from ldm.files.write import write_safetensors
from ldm.shell import quoted
from lun.posthoc_ema.inspecting import HEADER, describe, require_widths
from lun.posthoc_ema.library import Library
from lun.posthoc_ema.reconstruction import Reconstruction
from lun.posthoc_ema.wanted_averages import fits_of_widths, fitted_averages, is_width

log = logging.getLogger(__name__)

WORST = 0.05
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def reconstruct(arguments: argparse.Namespace) -> None:
    """Print how well each average can be had, then write it; for a sweep validate it instead."""
    if not 0 <= arguments.base_weight <= 1:
        raise Fault("CLI05", f"{arguments.base_weight:g} is no share", where="--base-weight", fix="--base-weight 0.1")
    library = Library.open(arguments.run)
    step = library.last if arguments.step is None else arguments.step
    snapshots = library.until(step)
    fits = fitted_averages(arguments, snapshots, step)
    print(f"at step {step}, from {len(snapshots)} snapshots:\n{HEADER}   sum c")
    for name, result in fits.items():
        print(f"{describe(name, result)} {result.sum:9.6f}")
    _refuse_poor(fits, arguments.force, "a width or step that `inspect` shows to be closer, or --force")
    if arguments.sweep:
        from lun.posthoc_ema.sweeping import sweep  # the whole trainer

        sweep(arguments, library, snapshots, fits)
        return
    places = _places(arguments, list(fits))
    with library.base() as base:
        for name, result in fits.items():
            weights = Reconstruction(
                base, snapshots, result.coefficients.tolist(), arguments.base_weight, DTYPES[arguments.dtype]
            )
            kind = "ema_sigma_rel" if is_width(name) else "ema_weighting"
            about = {"format": "pt", kind: name, "step": str(step)}
            write_safetensors(places[name], weights, about | {"base_weight": f"{arguments.base_weight:g}"})
            print(f"written  {places[name]}")


@contextmanager
def average_of(run: str, width: float, step: int | None = None) -> Iterator[Reconstruction]:
    """The average of a width at a step (the last snapshot's), made one tensor at a time while the block runs.

    Raises `Fault` MOD01 to MOD03 for snapshots that cannot be used, CLI05 for a width or step that they cannot make.
    """
    require_widths([width])
    library = Library.open(run)
    at = library.last if step is None else step
    snapshots = library.until(at)
    fits = fits_of_widths([width], snapshots, at)
    _refuse_poor(fits, False, "a width or step that `python -m lun.posthoc_ema inspect` shows to be closer")
    with library.base() as base:
        yield Reconstruction(base, snapshots, fits[f"{width:g}"].coefficients.tolist())


def _refuse_poor(fits: Mapping[str, Fit], force: bool, fix: str) -> None:
    poor = {name: result for name, result in fits.items() if result.profile_error > WORST}
    if not poor:
        return
    averages = ", ".join(f"{name} ({100 * result.profile_error:.1f} %)" for name, result in poor.items())
    fault = Fault(
        "CLI05",
        f"these snapshots cannot make the {'width' if all(map(is_width, poor)) else 'average'} {averages}",
        why=f"its profile would be further than {100 * WORST:.0f} % from the one wanted",
        fix=fix,
    )
    if not force:
        raise fault
    log.warning(fault.render("warning"))


def _places(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Path]:
    """A file for each average, none of which exists."""
    if arguments.out is None:
        raise Fault("CLI05", "nothing says where to write", where="-o", fix="-o ema-{width}.safetensors")
    if len(names) > 1 and "{width}" not in arguments.out:
        raise Fault("CLI05", "several averages need several files", where="-o", fix="-o ema-{width}.safetensors")
    places = {name: Path(arguments.out.replace("{width}", name)) for name in names}
    for path in places.values():
        refuse_existing(path)
    return places


def refuse_existing(path: Path) -> None:
    """`Fault` CLI05 for a place that is taken or a kind of file that is not written."""
    if path.suffix != ".safetensors":
        raise Fault(
            "CLI05", f"{path} is no .safetensors file", where="-o", fix=f"-o {quoted(path.with_suffix('.safetensors'))}"
        )
    if path.exists():
        raise Fault("CLI05", f"{path} exists", where="-o", why="nothing is overwritten", fix="another name")
