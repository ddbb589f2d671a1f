"""What the settings of one set of another program say, by its table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lun.config.reading.yaml_tree import parse_value
from lun.migrate.foreign import Taken
from lun.other_trainers.counterparts import TRAIN, Counterpart


def said_by(taken: Taken, rows: Mapping[str, Counterpart]) -> tuple[dict[str, Any], list[str]]:
    """(settings by path, lines on what has no equal) of all that is on, was not taken yet and has a row.

    The params of the set stand together below `TRAIN`, whichever of several sets it is. Overlays are not named:
    what they say of sets is in the settings.
    """
    said: dict[str, Any] = {}
    told: list[str] = []
    for name, value in taken.rest().items():
        if name not in rows:
            continue
        taken.names.add(name)
        text = None if value is True else text_of(value)
        known = rows[name].of(text)
        if known.kind in ("none", "changed") or (known.kind == "same" and not known.words):
            told.append(f"{taken.where}.{name}: {value!r}; {known.say}")
        for path, given in (word.split("=", 1) for word in (known.typed(text) if known.kind != "none" else [])):
            if path.startswith(f"{TRAIN}."):
                merged(said.setdefault(TRAIN, {}), path.removeprefix(f"{TRAIN}."), plain(given))
            else:
                merged(said, path, plain(given))
    return said, told


def merged(into: dict[str, Any], key: str, value: Any) -> None:
    """Lay a value over what stands at a key; maps merge."""
    if isinstance(value, Mapping) and isinstance(into.get(key), dict):
        for inner, one in value.items():
            merged(into[key], inner, one)
    else:
        into[key] = value


def plain(text: str) -> Any:
    """A value that is written as YAML."""
    return parse_value(text, "").plain()


def text_of(value: Any) -> str:
    """A value as a command line has it: several words with commas."""
    return ",".join(text_of(one) for one in value) if isinstance(value, list) else str(value)
