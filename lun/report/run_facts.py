"""Everything that the page of a run says, read off its directory: whatever of it is missing or broken is left out."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ldm.plain import read_json, require_ordinary
from lun.report.attempts import Attempt, attempts
from lun.report.curves import Curves, read_curves
from lun.report.disk_use import FileUse, disk_use
from lun.report.picture_list import StandingOut
from lun.report.run_state import RunState, run_state
from lun.report.sample_tiles import SampleStrip, TileCache, sample_strip
from lun.run_dir.config_changes import readable_settings
from lun.run_dir.directory import RunDirectory
from lun.run_dir.what_trains import FILE as WHAT_TRAINS

LOG_READ = 1 << 20
"""Bytes at the end of `console.log` in which warnings are looked for."""
WARNINGS = 60
LONGEST = 600
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ([A-Z]+) +(.*)")


@dataclass(frozen=True)
class RunFacts:
    """What there is to say of one run.

    plan      what it trains on what, as (label, text)
    warnings  with how often each was logged
    """

    run: RunDirectory
    state: RunState
    plan: list[tuple[str, str]]
    curves: Curves
    strip: SampleStrip
    pictures: StandingOut
    attempts: list[Attempt]
    warnings: list[tuple[str, int]]
    files: list[FileUse]
    left_out: list[str]

    @classmethod
    def of(cls, path: Path, cache: TileCache, writing: bool = False) -> RunFacts:
        """The facts of the run directory `path`; `writing` says that this process is the one that trains it."""
        run = RunDirectory(path)
        curves, strip, starts = read_curves(path), sample_strip(path, cache), attempts(run)
        files, unseen = disk_use(path)
        pictures = StandingOut.of(path)
        record = starts[-1].record if starts else None
        state = run_state(run, record, curves, writing, time.time())
        found = list(_warnings(run.console))
        left_out = [*curves.left_out, *strip.left_out, *pictures.left_out, *unseen]
        if len(found) > WARNINGS:
            left_out.append(f"{len(found) - WARNINGS:,} warnings; {run.console.name} has all")
        plan = list(plan_of(run, state))
        return cls(run, state, plan, curves, strip, pictures, starts, found[:WARNINGS], files, left_out)


def plan_of(run: RunDirectory, state: RunState) -> Iterator[tuple[str, str]]:
    """What trains, on which data, how: label and text."""
    settings = readable_settings(run.resolved_config) or {}
    yield from _networks(run)
    if data := _data(settings, state):
        yield "data", data
    model = _map(settings.get("model"))
    trainer = _map(_map(settings.get("lightning")).get("trainer"))
    if (rate := model.get("base_learning_rate")) is not None:
        yield "rate", f"base learning rate {rate}"
    optimizer = _map(_map(model.get("params")).get("optimizer_config")).get("target")
    if optimizer:
        yield "optimizer", str(optimizer)
    how = {name: trainer.get(name) for name in ("precision", "devices", "accumulate_grad_batches", "strategy")}
    if said := ", ".join(f"{name} {value}" for name, value in how.items() if value is not None):
        yield "trainer", said
    if state.record is not None:
        yield "seed", str(state.record.seed)
        yield "versions", ", ".join(f"{name} {number}" for name, number in state.record.versions.items())


def _networks(run: RunDirectory) -> Iterator[tuple[str, str]]:
    table = _map(_json(run.path / WHAT_TRAINS))
    networks, groups = table.get("networks"), table.get("groups")
    for network in map(_map, networks if isinstance(networks, list) else []):
        numbers, trained = network.get("numbers"), network.get("trained")
        if isinstance(numbers, int) and isinstance(trained, int):
            how = "trained" if trained == numbers else f"{_count(trained)} trained" if trained else "frozen"
            yield "network", f"{network.get('name')}: {_count(numbers)} numbers, {how}"
    for group in map(_map, groups if isinstance(groups, list) else []):
        rate, numbers = group.get("learning_rate"), group.get("numbers")
        if isinstance(rate, int | float) and isinstance(numbers, int):
            yield "trains", f"{group.get('rules') or _parts(group)}: {_count(numbers)} numbers at {rate:.3g}"


def _parts(group: Mapping[str, Any]) -> str:
    """The networks that the weights of a group without a rule are of."""
    names = group.get("names")
    return ", ".join(dict.fromkeys(str(name).partition(".")[0] for name in names)) if isinstance(names, list) else "all"


def _data(settings: Mapping[str, Any], state: RunState) -> str:
    train = _map(_map(_map(settings.get("data")).get("params")).get("train"))
    named = _map(train.get("sets"))
    recipes = [(f"{name}: ", _map(one)) for name, one in named.items()] or [("", train)]
    roots = [f"{name}{_map(one.get('params')).get('data_root', one.get('target', ''))}" for name, one in recipes if one]
    data = state.record.data if state.record else {}
    n, batch = data.get("n"), data.get("global_batch")
    parts = [f"{n:,} examples" if isinstance(n, int) else "", f"{batch:,} a step" if isinstance(batch, int) else ""]
    if isinstance(n, int) and isinstance(batch, int) and n:
        parts.append(f"{state.step * batch / n:.1f} epochs so far")
    return "; ".join(text for text in [", ".join(roots), *parts] if text)


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(numbers: int) -> str:
    return f"{numbers / 1e6:,.2f} M" if numbers >= 10_000 else f"{numbers:,}"


def _warnings(log: Path) -> Iterator[tuple[str, int]]:
    """Warnings and errors of a run's log, the newest first, with how often each stands there."""
    try:
        size = require_ordinary(log)
        with log.open("rb") as stream:
            stream.seek(max(0, size - LOG_READ))
            lines = stream.read(LOG_READ).decode("utf-8", "replace").splitlines()
    except (OSError, ValueError):
        return
    found: list[str] = []
    open_message = False
    for line in lines:
        if match := _LOGGED.fullmatch(line):
            open_message = match[1] in ("WARNING", "ERROR", "CRITICAL")
            if open_message:
                found.append(match[2])
        elif open_message and len(found[-1]) < LONGEST:
            found[-1] += "\n" + line
    counts = Counter(found)
    for text in dict.fromkeys(reversed(found)):
        yield text[:LONGEST], counts[text]
