"""A configuration as YAML that a person goes on with: a comment where it stands what a setting is for."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml


class Line(NamedTuple):
    """A value and what is said beside it."""

    value: Any
    comment: str = ""


def commented(head: Sequence[str], settings: Mapping[str, Line]) -> str:
    """YAML with `head` as comments above, of settings by dotted path."""
    tree: dict[str, Any] = {}
    for path, line in settings.items():
        *folders, last = path.split(".")
        inner = tree
        for name in folders:
            inner = inner.setdefault(name, {})
        inner[last] = line
    return "\n".join([*(f"# {line}" for line in head), *_written(tree, 0), ""])


def _written(tree: Mapping[str, Any], depth: int) -> list[str]:
    lines: list[str] = []
    for name, value in tree.items():
        start = f"{'  ' * depth}{name}:"
        if isinstance(value, Line):
            lines.append(f"{start} {_flow(value.value)}" + (f" # {value.comment}" if value.comment else ""))
        else:
            lines += [start, *_written(value, depth + 1)]
    return lines


def _flow(value: Any) -> str:
    """On one line."""
    text = str(yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=float("inf"), sort_keys=False))
    return text.removesuffix("...\n").strip()
