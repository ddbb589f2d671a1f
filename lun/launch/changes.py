"""What a resumed run's configuration says otherwise than before, setting by setting."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ABSENT = "not set"
LONGEST = 60


def changed_settings(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """`model.base_learning_rate: 1e-05 -> 5e-06` for each dotted key that differs, in the order of today's file."""
    old, new = dict(_leaves(before, ())), dict(_leaves(now, ()))
    names = [*new, *(name for name in old if name not in new)]
    return [
        f"{name}: {_shown(old, name)} -> {_shown(new, name)}"
        for name in names
        if name not in old or name not in new or old[name] != new[name]
    ]


def stored_settings(resolved: Path) -> Mapping[str, Any] | None:
    """The configuration of a run's last start; None where it did not store one, as in 2022."""
    try:
        found = yaml.safe_load(resolved.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return None
    return found if isinstance(found, Mapping) else None


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, str(key)))
    else:
        yield ".".join(path), value


def _shown(settings: Mapping[str, Any], name: str) -> str:
    if name not in settings:
        return ABSENT
    text = str(settings[name])
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
