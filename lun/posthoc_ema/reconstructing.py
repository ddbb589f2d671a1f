"""`reconstruct`: how well widths can be had, and files of those weights."""

import argparse
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch

from ldm.ema.posthoc import Fit, PowerProfile, fit
from ldm.errors import Fault
from ldm.files.ema_snapshot import Snapshot
from ldm.files.write import write_safetensors
from ldm.shell import quoted
from lun.posthoc_ema.inspecting import HEADER, describe, require_widths
from lun.posthoc_ema.library import Library, profile_of
from lun.posthoc_ema.reconstruction import Reconstruction

log = logging.getLogger(__name__)

WORST = 0.05
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


def reconstruct(arguments: argparse.Namespace) -> None:
    """Print how well each width can be had, then write it; with `--sweep` validate it instead."""
    require_widths(arguments.width)
    if not 0 <= arguments.base_weight <= 1:
        raise Fault("CLI05", f"{arguments.base_weight:g} is no share", where="--base-weight", fix="--base-weight 0.1")
    library = Library.open(arguments.run)
    step = library.last if arguments.step is None else arguments.step
    snapshots = library.until(step)
    fits = {width: _fit(snapshots, width, step) for width in arguments.width}
    print(f"at step {step}, from {len(snapshots)} snapshots:\n{HEADER}   sum c")
    for width, result in fits.items():
        print(f"{describe(width, result)} {result.sum:9.6f}")
    _refuse_poor(fits, arguments.force, "a width or step that `inspect` shows to be closer, or --force")
    if arguments.sweep:
        from lun.posthoc_ema.sweeping import sweep  # the whole trainer

        sweep(arguments, library, snapshots, fits)
        return
    places = _places(arguments)
    with library.base() as base:
        for width, result in fits.items():
            weights = Reconstruction(
                base, snapshots, result.coefficients.tolist(), arguments.base_weight, DTYPES[arguments.dtype]
            )
            about = {"format": "pt", "ema_sigma_rel": f"{width:g}", "step": str(step)}
            write_safetensors(places[width], weights, about | {"base_weight": f"{arguments.base_weight:g}"})
            print(f"written  {places[width]}")


@contextmanager
def average_of(run: str, width: float, step: int | None = None) -> Iterator[Reconstruction]:
    """The average of a width at a step (the last snapshot's), made one tensor at a time while the block runs.

    Raises `Fault` MOD01 to MOD03 for snapshots that cannot be used, CLI05 for a width or step that they cannot make.
    """
    require_widths([width])
    library = Library.open(run)
    at = library.last if step is None else step
    snapshots = library.until(at)
    result = _fit(snapshots, width, at)
    _refuse_poor({width: result}, False, "a width or step that `python -m lun.posthoc_ema inspect` shows to be closer")
    with library.base() as base:
        yield Reconstruction(base, snapshots, result.coefficients.tolist())


def _fit(snapshots: Sequence[Snapshot], width: float, step: int) -> Fit:
    time = step - snapshots[0].about.t_offset
    return fit([profile_of(one) for one in snapshots], PowerProfile(width, time))


def _refuse_poor(fits: Mapping[float, Fit], force: bool, fix: str) -> None:
    poor = {width: result for width, result in fits.items() if result.profile_error > WORST}
    if not poor:
        return
    widths = ", ".join(f"{width:g} ({100 * result.profile_error:.1f} %)" for width, result in poor.items())
    fault = Fault(
        "CLI05",
        f"these snapshots cannot make the width {widths}",
        why=f"its profile would be further than {100 * WORST:.0f} % from the one wanted",
        fix=fix,
    )
    if not force:
        raise fault
    log.warning(fault.render("warning"))


def _places(arguments: argparse.Namespace) -> dict[float, Path]:
    """A file for each width, none of which exists."""
    if arguments.out is None:
        raise Fault("CLI05", "nothing says where to write", where="-o", fix="-o ema-{width}.safetensors")
    if len(arguments.width) > 1 and "{width}" not in arguments.out:
        raise Fault("CLI05", "several widths need several files", where="-o", fix="-o ema-{width}.safetensors")
    places = {width: Path(arguments.out.replace("{width}", f"{width:g}")) for width in arguments.width}
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
