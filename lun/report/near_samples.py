"""Samples beside the picture of training that each is nearest to, from `metrics/samples.json`: copies stand first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.plain import read_json, record_of

FILE = Path("metrics") / "samples.json"
SAMPLES = Path("metrics") / "nearest"
SHOWN = 12


@dataclass(frozen=True)
class NearSample:
    """One row of the file: `cosine` of its features with those of `picture`; `sample` is its file, if one is kept."""

    cosine: float
    caption: str
    picture: str
    sample: str = ""

    @property
    def name(self) -> str:
        """The file of the picture, without its folder."""
        return Path(self.picture).name

    @property
    def kept(self) -> Path:
        """Where the sample lies below the run, whatever the file says."""
        return SAMPLES / Path(self.sample).name


def near_samples(run: Path) -> list[NearSample]:
    """The nearest ones first; what cannot be read is none."""
    try:
        table: Any = read_json(run / FILE)
    except (OSError, ValueError):
        return []
    rows = table.get("nearest") if isinstance(table, Mapping) else None
    read = [_near(row) for row in rows[:SHOWN]] if isinstance(rows, list) else []
    return [one for one in read if one]


def _near(row: object) -> NearSample | None:
    known = NearSample.__dataclass_fields__
    try:
        found = record_of(NearSample, {k: v for k, v in row.items() if k in known} if isinstance(row, Mapping) else row)
    except ValueError:
        return None
    return found if math.isfinite(found.cosine) else None
