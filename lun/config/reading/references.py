"""`${a.b}` in a merged configuration: each is replaced by the setting that it names."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from ldm.errors import Fault
from lun.config.reading.yaml_tree import Path

REFERENCE = re.compile(r"\$\{([^${}:]+)\}")
PLAIN = re.compile(r"\$\{([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)\}")
"""`${a.b}`, which needs none of the library's grammar."""
NO_TEXT = ("$", "\\", "???")
"""What the library reads in a text, or for one."""
LARGEST = 1_000_000


def resolved(config: dict[str, Any], positions: Mapping[Path, str]) -> tuple[dict[str, Any], dict[Path, Fault]]:
    """The configuration with every interpolation replaced, and a `Fault` CFG06 for each that stays as it is written.

    Raises `Fault` CFG06 for references that would grow without bounds.
    """
    places = [(path, text) for path, text in _texts(config) if "${" in text]
    if not places:
        return config, {}
    _refuse_bomb(config, places)
    plain = {path: _plain(config, text) for path, text in places}
    if None not in plain.values():
        result = deepcopy(config)
        for path, value in plain.items():
            put(result, path, value)
        return result, {}
    from lun.config.reading.interpolation import resolved_by_library  # a grammar that takes as long to import as we do

    return resolved_by_library(config, places, positions)


def _plain(config: dict[str, Any], text: str) -> Any:
    """What a text comes to that refers to plain numbers and words alone; None for any other."""
    named = {name: at(config, tuple(name.split("."))) for name in PLAIN.findall(text)}
    if any(not isinstance(value, (str, int, float)) or _is_read(value) for value in named.values()):
        return None
    whole = PLAIN.fullmatch(text)
    if whole:
        return named[whole[1]]
    return None if _is_read(PLAIN.sub("", text)) else PLAIN.sub(lambda found: str(named[found[1]]), text)


def _is_read(value: Any) -> bool:
    return isinstance(value, str) and any(mark in value for mark in NO_TEXT)


def _refuse_bomb(config: dict[str, Any], places: list[tuple[Path, str]]) -> None:
    """Raise `Fault` CFG06 where references to references would grow beyond what any configuration needs.

    Sizes are counted, not built: a reference weighs what it names does, `${a}${a}` twice as much.
    """
    weights: dict[Path, int] = {}

    def weight(value: Any, path: Path) -> int:
        if isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            return 1 + sum(weight(item, (*path, str(key))) for key, item in items)
        if not isinstance(value, str):
            return 1
        return len(value) + sum(named(_meant(name, path)) for name in REFERENCE.findall(value))

    def named(path: Path) -> int:
        if path not in weights:
            weights[path] = 0  # while it is being weighed; a circle is reported by the library
            weights[path] = weight(at(config, path), path)
        return min(weights[path], LARGEST)

    for path, text in places:
        if weight(text, path) >= LARGEST:
            why = f"with all that it refers to it is longer than {LARGEST:,} characters"
            raise Fault("CFG06", f"{'.'.join(path)} cannot be resolved", where=".".join(path), why=why)


def _meant(name: str, path: Path) -> Path:
    """The place that `a.b[0]` means, or `.b` (beside `path`), `..b` (a level above)."""
    dots = len(name) - len(name.lstrip("."))
    keys = tuple(name[dots:].replace("[", ".").replace("]", "").split("."))
    return (*path[: max(len(path) - dots, 0)], *keys) if dots else keys


def at(config: Any, path: Path) -> Any:
    """The value at a path; None where there is none."""
    for key in path:
        if isinstance(config, list):
            config = config[int(key)] if key.isdecimal() and int(key) < len(config) else None
        else:
            config = config.get(key) if isinstance(config, dict) else None
    return config


def _texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, str(index)))


def put(config: Any, path: Path, text: str | None) -> None:
    """Replace the value at a path that is there."""
    for key in path[:-1]:
        config = config[int(key) if isinstance(config, list) else key]
    config[int(path[-1]) if isinstance(config, list) else path[-1]] = text
