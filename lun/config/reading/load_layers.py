"""The layers of a run's configuration, merged into one tree that knows where each setting came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ldm.errors import Fault
from lun.config.reading.extends import expanded
from lun.config.reading.layers import merged, with_value, without
from lun.config.reading.order import in_order
from lun.config.reading.references import resolved
from lun.config.reading.yaml_files import anchored
from lun.config.reading.yaml_tree import Node, Path, as_node, parse_value
from lun.config.suggestions import did_you_mean, raise_all

COMMAND_LINE = "command line"
DEFAULT = "built-in default"


@dataclass(frozen=True)
class Merged:
    """A merged configuration: `config` in plain containers, the place of each value, and the files it came from.

    `unresolved` holds a `Fault` CFG06 for each interpolation that stands in `config` as it was written.
    """

    config: dict[str, Any]
    positions: Mapping[Path, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    unresolved: Mapping[Path, Fault] = field(default_factory=dict)

    def where(self, path: str | Sequence[str]) -> str:
        """`file:line` or `command line` of a setting, or of the nearest setting around it; '' if nothing is known."""
        keys = tuple(path.split(".")) if isinstance(path, str) else tuple(path)
        places = (self.positions[keys[:size]] for size in range(len(keys), 0, -1) if keys[:size] in self.positions)
        return next(places, "")

    def replaced(self, config: dict[str, Any]) -> Merged:
        """The same places for a rewritten configuration."""
        return replace(self, config=config)


@dataclass(frozen=True)
class Layers:
    """The files of a configuration, read and merged, before the settings of a command line."""

    tree: Node
    files: tuple[str, ...]

    def with_settings(self, settings: Sequence[str]) -> Merged:
        """Lay settings of the command line over the files (`a.b=value`, `~a.b` removes), and resolve interpolations.

        Settings are one layer, in their order; removals come before them.
        Raises `Fault` CFG02, CFG03 or CLI03, an ExceptionGroup of several.
        """
        tree = _with_overrides(self.tree, settings)
        positions = tree.positions()
        positions.pop(())
        config, unresolved = resolved(tree.plain(), positions)
        return Merged(anchored(config), positions, self.files, unresolved)


def load_layers(
    files: Sequence[str], overrides: Sequence[str] = (), defaults: Mapping[str, Any] | None = None
) -> Merged:
    """Files and settings, with nothing unresolved. Raises `Fault` CFG06 as well, an ExceptionGroup of several."""
    merged_layers = read_layers(files, defaults).with_settings(overrides)
    raise_all(list(merged_layers.unresolved.values()))
    return merged_layers


def read_layers(files: Sequence[str], defaults: Mapping[str, Any] | None = None) -> Layers:
    """Read YAML files and merge them by `in_order`; `defaults` is a layer below all of them.

    A file comes after those that it extends.
    Raises `Fault` CFG01, CFG02, CFG03 or CFG08, an ExceptionGroup of several.
    """
    in_turn = in_order(expanded(files))
    tree = as_node(dict(defaults or {}), DEFAULT)
    for layer in in_turn:
        tree = merged(tree, layer.node)
    return Layers(tree, tuple(layer.file.as_posix() for layer in in_turn))


def _with_overrides(tree: Node, overrides: Sequence[str]) -> Node:
    layer = Node({}, COMMAND_LINE)
    faults: list[Fault] = []
    for item in overrides:
        try:
            if item.startswith("~"):
                tree = _removed(tree, item[1:])
            else:
                layer = with_value(layer, *_setting(item))
        except Fault as fault:
            faults.append(fault)
    raise_all(faults)
    return merged(tree, layer)


def _setting(item: str) -> tuple[Path, Node]:
    key, equals, text = item.partition("=")
    if not key or not equals:
        raise Fault("CLI03", f"cannot read the setting {item}", where=COMMAND_LINE, fix="write key.sub=value")
    path = tuple(key.replace("[", ".").replace("]", "").split("."))
    try:
        return path, parse_value(text, COMMAND_LINE)
    except Fault as fault:
        raise Fault(
            "CFG02",
            f"the value of {key} is not valid YAML",
            where=f"{COMMAND_LINE} ({item})",
            why=fault.why,
            fix=f"put it in quotes: '{key}=\"{text}\"'",
        ) from fault


def _removed(tree: Node, key: str) -> Node:
    path = tuple(key.split("."))
    if len(path) == 3 and path[:2] in {("lightning", "callbacks"), ("lightning", "logger")}:
        return merged(tree, with_value(Node({}, COMMAND_LINE), path, Node(None, COMMAND_LINE)))
    try:
        return without(tree, path)
    except KeyError:
        known = [".".join(place) for place in tree.positions() if place]
        raise Fault(
            "CFG03",
            f"cannot remove {key}: there is no such setting",
            where=f"{COMMAND_LINE} (~{key})",
            fix=did_you_mean(key, known, prefix="~"),
        ) from None
