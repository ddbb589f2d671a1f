"""Configs as they are read, and those that they stand on: `extends: [a, b]` in a file merges these below it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ldm.errors import Fault
from lun.config.reading.yaml_files import SUFFIXES, find_config, read_text
from lun.config.reading.yaml_tree import Node, parse
from lun.config.suggestions import did_you_mean, raise_all

KEY = "extends"


@dataclass(frozen=True)
class Layer:
    """A config as it was read: its file as it was named and where that really is, its settings, and the files (where
    they really are) that it extends directly."""

    file: Path
    place: Path
    node: Node
    extends: tuple[Path, ...] = ()


def expanded(names: Sequence[str]) -> list[Layer]:
    """The files that a command line names, each after those that it extends and that have not come before.

    Raises `Fault` CFG01 for a file that is not there and CFG02 for one that is no config, an ExceptionGroup of several.
    """
    layers: list[Layer] = []
    faults: list[Fault] = []
    for position, name in enumerate(names, start=1):
        try:
            _add(find_config(name, position), layers, ())
        except Fault as fault:
            faults.append(fault)
    raise_all(faults)
    return layers


def _add(file: Path, layers: list[Layer], above: tuple[Path, ...]) -> None:
    """Append a file, those that it extends before it; `above` are the places on whose behalf that happens."""
    node = _read(file)
    items = dict(node.value)
    extends = items.pop(KEY, None)
    others = tuple(_beside(name, file, extends.where if extends else "") for name in _names(extends))
    places = tuple(other.resolve() for other in others)
    above = (*above, file.resolve())
    for other, place in zip(others, places, strict=True):
        if place not in above and all(place != layer.place for layer in layers):
            _add(other, layers, above)
    layers.append(Layer(file, file.resolve(), Node(items, node.where), places))


def _names(extends: Node | None) -> list[str]:
    if extends is None:
        return []
    names = extends.plain()
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Fault("CFG03", f"{KEY}: expected a list of configs, got {names!r}", where=extends.where)
    return names


def _beside(name: str, file: Path, where: str) -> Path:
    """The file that `name` means in `file`: one beside it, else one that the command line would find."""
    for suffix in SUFFIXES:
        candidate = Path(os.path.normpath(file.parent / (name + suffix)))
        if candidate.suffix in SUFFIXES[1:] and candidate.is_file():
            return candidate
    try:
        config_file = find_config(name)
        if (
            config_file.suffix not in SUFFIXES[1:]
        ):  # an error in it would show lines of whatever file a shared config names
            raise Fault("CFG01", f"{config_file} is no YAML file", fix="name a file that ends in .yaml")
        return config_file
    except Fault as fault:
        here = [path.stem for path in file.parent.glob("*.y*ml")]
        fix = fault.fix or did_you_mean(name, here)
        raise Fault("CFG01", fault.what, where=where, why=f"{file} extends it", fix=fix) from fault


def _read(file: Path) -> Node:
    name = file.as_posix()
    node = parse(read_text(file), name)
    if node.value is None:
        return Node({}, node.where)
    if not isinstance(node.value, dict):
        raise Fault(
            "CFG02",
            f"{name} is not a config",
            where=node.where,
            why="its outermost level is not a map of settings",
            fix="start with lines such as `model:`",
        )
    return node
