"""What a translation of old spellings returns, and how a configuration is rewritten without being changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]
Path = tuple[str, ...]


@dataclass(frozen=True)
class RefusedSetting:
    """An old setting that asks for something that does not exist here."""

    path: Path
    what: str
    why: str = ""
    fix: str = ""


@dataclass(frozen=True)
class Upgrade:
    """A rewritten configuration with sentences to say once and settings that had to be refused."""

    config: Config
    notes: tuple[str, ...] = ()
    refusals: tuple[RefusedSetting, ...] = ()


def at(config: Mapping[str, Any], *path: str) -> Config:
    """The map at `path`, or an empty one where there is none."""
    value: Any = config
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return dict(value) if isinstance(value, Mapping) else {}


def put(config: Mapping[str, Any], value: Any, *path: str) -> Config:
    """A copy of `config` with `value` at `path`."""
    if len(path) > 1:
        value = put(at(config, path[0]), value, *path[1:])
    return {**config, path[0]: value}


def rewrite(value: Any, function: Callable[[Config], Config]) -> Any:
    """`value` with `function` applied to every recipe in it, outermost first."""
    if isinstance(value, Mapping):
        rewritten = function(dict(value)) if isinstance(value.get("target"), str) else value
        return {key: rewrite(item, function) for key, item in rewritten.items()}
    if isinstance(value, list):
        return [rewrite(item, function) for item in value]
    return value


def without(config: Mapping[str, Any], names: set[str]) -> Config:
    return {key: value for key, value in config.items() if key not in names}


def listed(names: list[str]) -> str:
    return ", ".join(sorted(names))
