"""Which averages a command line asks for: power functions by their width, and weightings that a file names."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ldm.ema.posthoc import Fit, PowerProfile, fit, fit_weighting
from ldm.ema.weightings import Weighting
from ldm.errors import Fault
from ldm.files.ema_snapshot import Snapshot
from ldm.plain_yaml import parse_yaml
from ldm.util import instantiate_from_config
from lun.cli.user_code import admit_user_code
from lun.posthoc_ema.inspecting import require_widths
from lun.posthoc_ema.library import profile_of

WHERE = "--averages"


def fitted_averages(arguments: argparse.Namespace, snapshots: Sequence[Snapshot], step: int) -> dict[str, Fit]:
    """How to make each average at `step`, by its width in digits or its name.

    Raises `Fault` CLI05 where none is asked for and for widths that there are not, CFG03 for what is no weighting.
    """
    if not arguments.width and not arguments.averages:
        raise Fault("CLI05", "no average is asked for", where="--width", fix="--width 0.08, or --averages FILE.yaml")
    require_widths(arguments.width)
    weightings = _weightings(Path(arguments.averages), arguments.allow) if arguments.averages else {}
    stored, time = [profile_of(one) for one in snapshots], float(step - snapshots[0].about.t_offset)
    fits = fits_of_widths(arguments.width, snapshots, step)
    for name, weighting in weightings.items():
        try:
            fits[name] = fit_weighting(stored, weighting, time)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Fault("CFG03", f"{name} is no weighting of steps", where=WHERE, why=str(error)) from error
    return fits


def fits_of_widths(widths: Sequence[float], snapshots: Sequence[Snapshot], step: int) -> dict[str, Fit]:
    """How to make the averages of some widths at `step`, by these in digits."""
    stored, time = [profile_of(one) for one in snapshots], step - snapshots[0].about.t_offset
    return {f"{width:g}": fit(stored, PowerProfile(width, time)) for width in widths}


def _weightings(file: Path, allow: Sequence[str]) -> dict[str, Weighting]:
    """The weightings of a YAML file by name. Raises `Fault` CFG03 for a file that names none."""
    admit_user_code(allow)
    try:
        document: Any = parse_yaml(file.read_text("utf-8"))
    except OSError as error:
        raise Fault("CFG01", f"cannot read {file}", where=WHERE, why=error.strerror or str(error)) from error
    except ValueError as error:
        raise Fault("CFG02", f"{file} is no YAML", where=WHERE, why=str(error).splitlines()[0]) from error
    named = document if isinstance(document, Mapping) else {}
    odd = [
        name for name, one in named.items() if not isinstance(one, Mapping) or "target" not in one or _is_taken(name)
    ]
    if not named or odd:
        why = f"{odd[0]!r} is none" if odd else "it names none"
        fix = "NAME: {target: ldm.ema.weightings.LastSteps, params: {steps: 2000}}"
        raise Fault("CFG03", f"{file} is no list of averages by name", where=WHERE, why=why, fix=fix)
    return {str(name): instantiate_from_config(dict(one)) for name, one in named.items()}


def is_width(name: str) -> bool:
    """Whether an average goes by its width, and not by a name."""
    try:
        float(name)
    except ValueError:
        return False
    return True


def _is_taken(name: object) -> bool:
    """Whether a name would be taken for a width, or for a folder."""
    return not str(name) or is_width(str(name)) or any(letter in str(name) for letter in "/\\{}")
