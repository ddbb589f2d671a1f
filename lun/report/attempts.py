"""The starts of a run, one after the other, and what each changed in its settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from ldm.plain import read_json
from lun.run_dir.config_changes import changed_settings, readable_settings
from lun.run_dir.directory import RunDirectory
from lun.run_dir.run_json import RunRecord

SHOWN = 50
_STAMPED = re.compile(r"(\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d)-resolved(?:-(\d+))?")


@dataclass(frozen=True)
class Attempt:
    """One start: what `run.json` holds of it, and the settings that are not those of the start before."""

    record: RunRecord
    changed: list[str] = field(default_factory=list)


def attempts(run: RunDirectory) -> list[Attempt]:
    """The starts in `run.json`, oldest first."""
    shown = _records(run)[-SHOWN:]
    settings = _settings(run) if len(shown) > 1 else []
    changes: list[list[str]] = [changed_settings(before, now) for before, now in pairwise(settings)]
    # A start writes its settings before its record, and one of 2022 wrote none: counted from the end they agree.
    aligned: list[list[str]] = [[] for _ in shown]
    for place in range(1, min(len(changes), len(shown) - 1) + 1):
        aligned[-place] = changes[-place]
    return [Attempt(record, changed) for record, changed in zip(shown, aligned, strict=True)]


def _records(run: RunDirectory) -> list[RunRecord]:
    try:
        rows = read_json(run.record_file)
    except (OSError, ValueError):
        return []
    if not isinstance(rows, Mapping):
        return []
    earlier = rows.get("earlier")
    all_rows = [rows, *(earlier if isinstance(earlier, list) else [])]
    found = [RunRecord.of(one) for one in all_rows if isinstance(one, Mapping)]
    return [record for record in reversed(found) if record is not None]


def _settings(run: RunDirectory) -> Sequence[Mapping[str, Any]]:
    """The settings of the last starts, oldest first."""
    try:
        names = [(path.stem, path) for path in run.configs.iterdir() if _STAMPED.fullmatch(path.stem)]
    except OSError:
        return []
    former = [path for _, path in sorted(names, key=lambda one: _order(one[0]))][-SHOWN:]
    return [settings for path in [*former, run.resolved_config] if (settings := readable_settings(path)) is not None]


def _order(stem: str) -> tuple[str, int]:
    match = _STAMPED.fullmatch(stem)
    assert match is not None
    return match[1], int(match[2] or 1)
