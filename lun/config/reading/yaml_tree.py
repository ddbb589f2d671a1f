"""A YAML text as a tree in which every value knows its file and line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from ldm.errors import Fault

Path = tuple[str, ...]
DEEPEST = 60
MOST_VALUES = 100_000
TAGS: Mapping[type[yaml.Node], tuple[str, ...]] = {
    yaml.ScalarNode: ("str", "int", "float", "bool", "null"),
    yaml.MappingNode: ("map",),
    yaml.SequenceNode: ("seq",),
}


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
        positions = {path: self.where}
        for key, node in self.children():
            positions.update(node.positions((*path, key)))
        return positions


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

    `name` stands before the line numbers. Raises `Fault` CFG02, also for a text that would take more memory than any
    configuration needs: deeper than `DEEPEST`, or of more than `MOST_VALUES` values once its aliases are written out.
    """
    try:
        return _Tree(text, name).read()
    except yaml.YAMLError as error:
        raise _syntax_fault(error, text, name) from error
    except RecursionError as error:
        why = f"it is nested deeper than {DEEPEST} levels"
        raise Fault("CFG02", f"{name} is not valid YAML", where=name, why=why) from error


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
        self.sizes: dict[int, int] = {}

    def read(self) -> Node:
        try:
            root = self.loader.get_single_node()
            return Node(None, f"{self.name}:1") if root is None else self.build(root, root)
        finally:
            self.loader.dispose()

    def build(self, source: yaml.Node, place: yaml.Node, depth: int = 0) -> Node:
        """The node of `source`; its line is that of `place` (the key, where there is one)."""
        where = f"{self.name}:{place.start_mark.line + 1}"
        if isinstance(source, yaml.ScalarNode):
            return Node(self.scalar(source), where)
        if depth > DEEPEST:
            raise RecursionError
        if id(source) not in self.built:
            self.built[id(source)] = None
            self.built[id(source)] = self.container(source, where, depth + 1)
        node = self.built[id(source)]
        if node is None:
            raise yaml.constructor.ConstructorError(None, None, "an alias refers to itself", source.start_mark)
        return Node(node.value, where)

    def scalar(self, source: yaml.ScalarNode) -> Any:
        self.refuse_tag(source)
        try:
            return self.loader.construct_object(source)
        except (ValueError, ArithmeticError, LookupError) as error:  # PyYAML lets them pass
            problem = f"{source.value[:40]!r} is no {source.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, problem, source.start_mark) from error

    def container(self, source: yaml.Node, where: str, depth: int) -> Node:
        self.refuse_tag(source)
        if isinstance(source, yaml.MappingNode):
            self.refuse_duplicates(source)
            self.loader.flatten_mapping(source)
        pairs = source.value if isinstance(source, yaml.MappingNode) else [(item, item) for item in source.value]
        values = [self.build(value, place, depth) for place, value in pairs]
        self.count(source, [value for _, value in pairs])
        if isinstance(source, yaml.SequenceNode):
            return Node(values, where)
        return Node({self.key(key): value for (key, _), value in zip(pairs, values, strict=True)}, where)

    def count(self, source: yaml.Node, values: list[yaml.Node]) -> None:
        """Keep how many values a container holds, those of its aliases each time: they would be written out."""
        size = self.sizes[id(source)] = 1 + sum(self.sizes.get(id(value), 1) for value in values)
        if size > MOST_VALUES:
            problem = f"with its aliases written out it has more than {MOST_VALUES:,} values"
            raise yaml.constructor.ConstructorError(None, None, problem, source.start_mark)

    def refuse_tag(self, source: yaml.Node) -> None:
        """No type but those of JSON: `!!set`, `!!timestamp` and their like mean nothing to a setting."""
        if source.tag not in [f"tag:yaml.org,2002:{kind}" for kind in TAGS[type(source)]]:
            problem = "could not determine a constructor for the tag " + source.tag
            raise yaml.constructor.ConstructorError(None, None, problem, source.start_mark)

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
    if "undefined alias" in problem:
        return (
            "an anchor holds within its own file: write the value itself, or ${path.to.it} of the merged configuration"
        )
    if "could not determine a constructor" in problem:
        return "remove the tag that starts with an exclamation mark"
    return ""
