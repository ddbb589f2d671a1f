"""A YAML text as a tree in which every value knows its file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from ldm.errors import Fault

Path = tuple[str, ...]


@dataclass(frozen=True)
class Node:
    """A value of a config with where it was written (`file:line` or `command line`); maps and lists hold nodes."""

    value: Any
    where: str

    def plain(self) -> Any:
        """The same value as plain dicts, lists and scalars."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value

    def children(self) -> Iterator[tuple[str, Node]]:
        if isinstance(self.value, dict):
            yield from self.value.items()
        elif isinstance(self.value, list):
            yield from ((str(index), node) for index, node in enumerate(self.value))

    def positions(self, path: Path = ()) -> dict[Path, str]:
        """Where each value below (and this one) was written, by its path."""
        found = {path: self.where}
        for key, node in self.children():
            found.update(node.positions((*path, key)))
        return found


class _Loader(yaml.SafeLoader):
    """Safe YAML 1.1 with three differences: `1e-4` is a float, dates and `12:30` stay text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":int", ":float"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
        r"|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


def parse(text: str, name: str) -> Node:
    """The tree of a YAML text; keys are text as written, merge keys (`<<`) are expanded, an empty text gives None.

    `name` stands before the line numbers. Raises `Fault` CFG02.
    """
    try:
        return _Tree(text, name).read()
    except yaml.YAMLError as error:
        raise _syntax_fault(error, text, name) from error


def parse_value(text: str, where: str) -> Node:
    """The value of a command-line setting, written as in YAML; all of it is at `where`."""
    return as_node(parse(text, where).plain(), where)


def as_node(value: Any, where: str) -> Node:
    """A tree of plain containers, all of it at one place."""
    if isinstance(value, Mapping):
        return Node({key: as_node(item, where) for key, item in value.items()}, where)
    if isinstance(value, list):
        return Node([as_node(item, where) for item in value], where)
    return Node(value, where)


class _Tree:
    """Builds nodes from composed YAML; what an anchor names is built once and shared."""

    def __init__(self, text: str, name: str) -> None:
        self.loader = _Loader(text)
        self.name = name
        self.built: dict[int, Node | None] = {}

    def read(self) -> Node:
        try:
            root = self.loader.get_single_node()
            return Node(None, f"{self.name}:1") if root is None else self.build(root, root)
        finally:
            self.loader.dispose()

    def build(self, source: yaml.Node, place: yaml.Node) -> Node:
        """The node of `source`; its line is that of `place` (the key, where there is one)."""
        where = f"{self.name}:{place.start_mark.line + 1}"
        if isinstance(source, yaml.ScalarNode):
            return Node(self.loader.construct_object(source), where)
        if id(source) not in self.built:
            self.built[id(source)] = None
            self.built[id(source)] = self.container(source, where)
        found = self.built[id(source)]
        if found is None:
            raise yaml.constructor.ConstructorError(None, None, "an alias refers to itself", source.start_mark)
        return Node(found.value, where)

    def container(self, source: yaml.Node, where: str) -> Node:
        if not source.tag.endswith((":map", ":seq")):
            return Node(self.loader.construct_object(source, deep=True), where)
        if isinstance(source, yaml.SequenceNode):
            return Node([self.build(item, item) for item in source.value], where)
        assert isinstance(source, yaml.MappingNode)
        self.refuse_duplicates(source)
        self.loader.flatten_mapping(source)
        return Node({self.key(key): self.build(value, key) for key, value in source.value}, where)

    def refuse_duplicates(self, source: yaml.MappingNode) -> None:
        seen: set[str] = set()
        for key, _ in source.value:
            if self.key(key) in seen:
                message = f"the key {key.value!r} occurs twice in one map"
                raise yaml.constructor.ConstructorError(None, None, message, key.start_mark)
            seen.add(self.key(key))

    def key(self, node: yaml.Node) -> str:
        if isinstance(node, yaml.ScalarNode):
            return str(node.value)
        raise yaml.constructor.ConstructorError(None, None, "a key has to be text", node.start_mark)


def _syntax_fault(error: yaml.YAMLError, text: str, name: str) -> Fault:
    what = f"{name} is not valid YAML"
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    problem = str(getattr(error, "problem", None) or getattr(error, "reason", None) or error)
    if mark is None:
        return Fault("CFG02", what, where=name, why=problem)
    lines = text.splitlines()
    number = min(mark.line, max(len(lines) - 1, 0))
    line = lines[number] if lines else ""
    where = f"{name}:{mark.line + 1}, column {mark.column + 1}\n{_excerpt(lines, number)}"
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return Fault(
            "CFG02",
            what,
            where=where,
            why="the line starts with a TAB; YAML allows only spaces",
            fix="replace the tab by spaces",
        )
    return Fault("CFG02", what, where=where, why=problem, fix=_syntax_fix(problem))


def _excerpt(lines: list[str], number: int) -> str:
    shown = range(max(number - 1, 0), min(number + 1, len(lines)))
    return "\n".join(f"{'>' if row == number else ' '} {row + 1} | {_visible(lines[row])}" for row in shown)


def _visible(line: str) -> str:
    return line.replace("\t", "→   ")


def _syntax_fix(problem: str) -> str:
    if "mapping values are not allowed" in problem:
        return "check the indentation, or put text that contains a colon in quotes"
    if "cannot start any token" in problem:
        return "put text that starts with a special character in quotes"
    if "could not determine a constructor" in problem:
        return "remove the tag that starts with an exclamation mark"
    return ""
