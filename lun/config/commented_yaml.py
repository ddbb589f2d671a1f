"""A configuration as YAML that a person goes on with: comments above and beside keys, and in paragraphs at the end."""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

WIDTH = 120

Path = tuple[str, ...]


@dataclass(frozen=True)
class Comments:
    """What is said of keys, by their paths.

    above   lines over the key
    beside  the end of its line
    """

    above: Mapping[Path, Sequence[str]] = field(default_factory=dict)
    beside: Mapping[Path, str] = field(default_factory=dict)

    def has_below(self, path: Path) -> bool:
        """Whether anything is said of a key within the map at `path`."""
        return any(len(known) > len(path) and known[: len(path)] == path for known in (*self.above, *self.beside))


def written(
    settings: Mapping[str, Any],
    comments: Comments,
    head: Sequence[str] = (),
    foot: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The text of a file.

    settings  nested maps; a list, and a map without maps or comments below it, stands on one line where it fits
    head      lines of a comment that begins the file
    foot      paragraphs of comments that end it, by their first lines; empty ones are left out
    """
    lines = [*(f"# {line}" for line in head), *_map(settings, (), comments)]
    for title, notes in (foot or {}).items():
        if notes:
            lines += ["", *_comment(title), *(part for line in notes for part in _comment(line, "  - ", "    "))]
    return "\n".join(lines) + "\n"


def _map(settings: Mapping[str, Any], outer: Path, comments: Comments) -> Iterator[str]:
    indent = "  " * len(outer)
    for key, value in settings.items():
        path = (*outer, str(key))
        yield from (indent + part for line in comments.above.get(path, ()) for part in _comment(line))
        name = f"{indent}{_flow(str(key))}:"
        line = f"{name} {_flow(value)}"
        beside = f" # {comments.beside[path]}" if comments.beside.get(path) else ""
        if isinstance(value, Mapping) and value and not _fits(value, line, path, comments):
            yield name + beside
            yield from _map(value, path, comments)
        else:
            yield line + beside


def _fits(value: Mapping[str, Any], line: str, path: Path, comments: Comments) -> bool:
    """Whether a map stands on one line: it is flat, or a recipe whose params are, and nothing in it has a comment."""
    inner = [one for one in value.values() if isinstance(one, Mapping)]
    flat = len(path) > 2 and not any(isinstance(deep, Mapping) for one in inner for deep in one.values())
    return flat and len(line) <= WIDTH and not comments.has_below(path)


def _flow(value: Any) -> str:
    """A value on one line, as YAML reads it back."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10**9, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _comment(line: str, first: str = "", others: str = "") -> list[str]:
    """The lines of a comment, which a line of its own ends however many the text has."""
    shown = " ".join(line.split("\n"))
    wrap = textwrap.TextWrapper(WIDTH - 10, break_long_words=False, break_on_hyphens=False)
    wrap.initial_indent, wrap.subsequent_indent = f"# {first}", f"# {others}"
    return wrap.wrap(shown)
