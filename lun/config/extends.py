"""Configs as they are read, and those that they stand on: `extends: [a, b]` in a file merges these below it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ldm.errors import Fault
from lun.config.errors import did_you_mean, raise_all
from lun.config.files import SUFFIXES, find_config, read_text
from lun.config.source import Node, parse

KEY = "extends"
Layers = list[tuple[Path, Node]]


def expanded(names: Sequence[str]) -> Layers:
    """The files that a command line names, each after those that it extends and that have not come before.

    Raises `Fault` CFG01 for a file that is not there and CFG02 for one that is no config, an ExceptionGroup of several.
    """
    layers: Layers = []
    faults: list[Fault] = []
    for position, name in enumerate(names, start=1):
        try:
            _add(find_config(name, position), layers, ())
        except Fault as fault:
            faults.append(fault)
    raise_all(faults)
    return layers


def _add(file: Path, layers: Layers, above: tuple[Path, ...]) -> None:
    """Append a file, those that it extends before it; `above` are the files on whose behalf that happens."""
    node = _read(file)
    items = dict(node.value)
    extends = items.pop(KEY, None)
    for name in _names(extends):
        other = _beside(name, file, extends.where if extends else "")
        known = [path.resolve() for path in (*(path for path, _ in layers), *above, file)]
        if other.resolve() not in known:
            _add(other, layers, (*above, file))
    layers.append((file, Node(items, node.where)))


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
        found = find_config(name)
        if found.suffix not in SUFFIXES[1:]:  # an error in it would show lines of whatever file a shared config names
            raise Fault("CFG01", f"{found} is no YAML file", fix="name a file that ends in .yaml")
        return found
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
