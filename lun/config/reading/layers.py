"""How one layer of a config lies over another: maps merge, lists replace, a new target starts its params afresh."""

from __future__ import annotations

from typing import Any

from lun.config.reading.yaml_tree import Node, Path

_SETS = "sets"


def merged(base: Node, layer: Node) -> Node:
    """`base` with `layer` over it; a map keeps the place where it was first written."""
    if isinstance(base.value, dict) and isinstance(layer.value, dict):
        items = _without_stale_params(base.value, layer.value)
        for key, node in layer.value.items():
            items[key] = merged(items[key], node) if key in items else node
        return Node(items, base.where)
    if isinstance(base.value, list) and _is_by_index(layer.value, len(base.value)):
        entries = list(base.value)
        for index, node in layer.value.items():
            entries[int(index)] = merged(entries[int(index)], node)
        return Node(entries, base.where)
    return layer


def with_value(tree: Node, path: Path, value: Node) -> Node:
    """`tree` with `value` at `path`, the maps on the way made where they are missing."""
    if not path:
        return value
    items = dict(tree.value) if isinstance(tree.value, dict) else {}
    items[path[0]] = with_value(items.get(path[0], Node({}, value.where)), path[1:], value)
    return Node(items, tree.where)


def without(tree: Node, path: Path) -> Node:
    """`tree` without the key at `path`; raises KeyError where there is none."""
    items = dict(tree.value) if isinstance(tree.value, dict) else {}
    node = items.pop(path[0])
    if len(path) > 1:
        items[path[0]] = without(node, path[1:])
        return Node({key: items[key] for key in tree.value}, tree.where)
    return Node(items, tree.where)


def _without_stale_params(base: dict[str, Node], layer: dict[str, Node]) -> dict[str, Node]:
    """`base` without what `layer` takes the place of; one recipe takes that of several `sets`, and they take its."""
    changed = "target" in base and "target" in layer and base["target"].value != layer["target"].value
    stale = {"params"} if changed else set()
    if _SETS in layer and "target" not in layer:
        stale |= {"target", "params"}
    if "target" in layer and _SETS not in layer:
        stale |= {_SETS, "epoch"} if _SETS in base else set()
    return {key: node for key, node in base.items() if key not in stale}


def _is_by_index(layer: Any, length: int) -> bool:
    return isinstance(layer, dict) and bool(layer) and all(key.isdecimal() and int(key) < length for key in layer)
