"""File names of checkpoints: templates such as `monitor/step-{step:06d}-loss-{val/loss_simple_ema:.3f}`."""

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from string import Formatter
from typing import Any

from ldm.errors import Fault


class _Fields(Formatter):
    """Takes a field's name as it is, with slashes and dots; a metric that was not measured yet is shown as nan."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        return kwargs.get(field_name, math.nan), field_name


def field_names(template: str) -> set[str]:
    """The fields of a template. Raises ValueError where its braces do not match."""
    return {name for _, name, _, _ in Formatter().parse(template) if name is not None}


def file_name(template: str, values: Mapping[str, Any]) -> str:
    """The name for `epoch`, `step` and metrics, a slash outside braces making a sub-folder; with the suffix `.ckpt`."""
    return _Fields().vformat(template, (), values) + ".ckpt"


def check_place(dirpath: str, filename: str, outside: bool) -> None:
    """Raise `Fault` CFG08 where files would be written elsewhere than below the run directory, unless `outside`."""
    for name, given in (("dirpath", dirpath), ("filename", filename)):
        path = PurePath(given)
        if not outside and (path.is_absolute() or ".." in path.parts or given.startswith("~")):
            raise Fault(
                "CFG08",
                f"{name} {given} leads out of the run directory",
                where="lightning.callbacks",
                why="files there are not found by a resume, and may be somebody else's",
                fix="a path below the run directory (checkpoints/ may be a link to another disk), or outside: true",
            )


def check_template(template: str) -> None:
    """Raise `Fault` CFG08 for a template that could not be filled in when the first save is due."""
    try:
        file_name(template, dict.fromkeys(field_names(template), 0.5) | {"epoch": 0, "step": 0})
    except (ValueError, TypeError) as error:
        raise Fault(
            "CFG08",
            f"cannot make file names from {template!r}: {error}",
            where="lightning.callbacks: filename of a checkpoint",
            fix='"every/step-{step:06d}", or a metric such as {val/loss_simple:.3f}',
        ) from error
