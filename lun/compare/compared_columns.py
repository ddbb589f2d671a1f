"""The columns of a comparison: sources times averages times adapters and strengths times scales of guidance."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from string import ascii_uppercase

from ldm.errors import Fault
from lun.compare.compared_sources import ComparedSource
from lun.weights.applied_adapters import AppliedAdapter


@dataclass(frozen=True)
class Weights:
    """One of the sets of weights that a source holds.

    averaged  its average (True), its own (False), the average where there is one (None)
    width     of a power function's average made from the run's snapshots, instead
    """

    averaged: bool | None = None
    width: float | None = None

    @property
    def label(self) -> str:
        """What a column says of it."""
        if self.width is not None:
            return f"EMA width {self.width:g}"
        return {True: "EMA", False: "raw", None: ""}[self.averaged]


@dataclass(frozen=True)
class Opening:
    """What is in memory for one or several columns; `strength` is of all adapters, None as they say themselves."""

    source: ComparedSource
    weights: Weights
    adapter: AppliedAdapter | None = None
    strength: float | None = None


@dataclass(frozen=True)
class Column:
    """A model as it was opened, and the scale of guidance by which it draws; None as its prompts or its run say."""

    opening: Opening
    guidance: float | None = None


def columns_of(sources: Sequence[ComparedSource], asked: argparse.Namespace) -> list[Column]:
    """The columns, those of one opening side by side. Raises `Fault` CLI03 for adapters that cannot be meant.

    A base model is drawn from as it is, whatever averages and adapters the others have.
    """
    weights = [Weights(True)] * asked.ema + [Weights(False)] * asked.raw + [Weights(None, w) for w in asked.ema_width]
    adapters: list[AppliedAdapter | None] = [AppliedAdapter.parse(given) for given in asked.adapter]
    openings = []
    for source in sources:
        if source.is_base:
            openings.append(Opening(source, Weights(source.base_average)))
            continue
        axes = product(weights or [Weights()], adapters or [None], asked.strength or [None])
        openings += [Opening(source, *axis) for axis in axes]
    return [Column(opening, scale) for opening in openings for scale in asked.guidance or [None]]


def require_snapshots(sources: Sequence[ComparedSource], widths: Sequence[float]) -> None:
    """Raise `Fault` CFG08 for a source that has no snapshots of which other widths could be made."""
    for source in sources if widths else ():
        if not source.is_base and (source.run is None or source.step is None):
            what = f"{source.given} has no snapshots of an EMA, of which other widths are made"
            raise Fault("CFG08", what, where="--ema-width", fix="name runs alone, or leave it out")


def letters(columns: Sequence[Column]) -> dict[Path, str]:
    """What stands for each run where there are several: A, B, ...; {} where there is one."""
    runs = list(dict.fromkeys(s.run.path for s in (column.opening.source for column in columns) if s.run and s.listed))
    return {path: _letter(number) for number, path in enumerate(runs)} if len(runs) > 1 else {}


def labels(columns: Sequence[Column]) -> list[tuple[str, str]]:
    """(which model, what else sets it apart) of each column."""
    known = letters(columns)
    return [(_name(column.opening.source, known), _detail(column)) for column in columns]


def _letter(number: int) -> str:
    return ascii_uppercase[number % 26] * (number // 26 + 1)


def _name(source: ComparedSource, known: Mapping[Path, str]) -> str:
    if not source.listed or source.run is None:
        return source.name
    return f"{known.get(source.run.path, '')} step {source.step}".strip()


def _detail(column: Column) -> str:
    opening = column.opening
    parts = [
        "" if opening.source.is_base else opening.weights.label,
        str(opening.adapter) if opening.adapter else "",
        "" if opening.strength is None else f"strength {opening.strength:g}",
        "" if column.guidance is None else f"guidance {column.guidance:g}",
    ]
    return ", ".join(part for part in parts if part)
