"""What a resumed run's configuration says otherwise than before, setting by setting."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ldm.errors import Fault
from lun.config.reading.yaml_files import read_text
from lun.config.reading.yaml_tree import parse

ABSENT = "not set"
LONGEST = 60
LONGEST_VALUE = 200


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`model.base_learning_rate: 1e-05 -> 5e-06` for each dotted key that differs, in the order of today's file.

    What came or went as a whole, such as a callback, is one line.
    """
    differences = _differences(before, now, ())
    return [f"{'.'.join(path)}: {_shown(old)} -> {_shown(new)}" for path, old, new in differences]


def flat_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    """{dotted key: its value as text}, long values cut."""
    return dict(_flat(settings, ()))


def differing_settings(runs: Sequence[Mapping[str, str]], absent: str) -> list[tuple[str, list[str]]]:
    """Of several runs' `flat_settings` those that are not the same in all, each with its values; `absent` for none."""
    keys = dict.fromkeys(key for settings in runs for key in settings)
    rows = [(key, [settings.get(key, absent) for settings in runs]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]


def stored_settings(resolved: Path) -> Mapping[str, Any] | None:
    """The configuration of a run's last start; None where it did not store one, as in 2022."""
    try:
        settings = parse(read_text(resolved), resolved.as_posix()).plain()
    except Fault:
        return None
    return settings if isinstance(settings, Mapping) else None


def readable_settings(resolved: Path) -> Mapping[str, Any] | None:
    """`stored_settings` for who only shows them: None as well where the file cannot be read."""
    try:
        return stored_settings(resolved)
    except (OSError, ValueError):
        return None


def _differences(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*new, *(key for key in old if key not in new)]:
            yield from _differences(old.get(key, ABSENT), new.get(key, ABSENT), (*path, str(key)))
    elif old != new:
        yield path, old, new


def _flat(settings: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for key, value in settings.items():
        path = (*above, str(key))
        if isinstance(value, Mapping) and value:
            yield from _flat(value, path)
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            yield ".".join(path), text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"


def _shown(value: Any) -> str:
    """A recipe by its target; anything else as it is, cut where it is long."""
    if value is None:
        return "null"
    text = str(value["target"] if isinstance(value, Mapping) and "target" in value else value)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
