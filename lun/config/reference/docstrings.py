"""What docstrings say: of a part in one sentence, and of each of its keys."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import typing
from collections.abc import Iterator
from typing import Any

from lun.config.declared.module_source import module_text
from lun.config.signature import target_at

OURS = ("ldm.", "lun.")
_ENTRY = re.compile(r"(\w+(?:, \w+)*) {2,}(\S.*)")
_SEE = re.compile(r"\b[Ss]ee `(\w+)`")
"""Where the keys of a map are those of a dataclass, which says what they mean."""
_OF_A_LIBRARY = re.compile(r" {4}\*{0,2}(\w+)(?: \(.*?\))?: *(.*)")


def about(target: Any) -> str:
    """The first paragraph of what a class or function says of itself, in one line."""
    return (inspect.getdoc(target) or "").split("\n\n")[0].replace("\n", " ")


def descriptions(target: Any) -> dict[str, str]:
    """{key: what is said of it} by a class or function, by its bases and by what it hands keys on to."""
    return dict(_descriptions(target))


def descriptions_of_fields(shape: Any) -> dict[str, str]:
    """{key: the text below it} of a TypedDict, and of those that it derives from."""
    elsewhere = _SEE.search(inspect.getdoc(shape) or "")
    said = descriptions(target_at(f"{shape.__module__}.{elsewhere[1]}")) if elsewhere else {}
    for one in (*getattr(shape, "__orig_bases__", ()), shape):
        text = module_text(getattr(one, "__module__", ""))
        statement = text.names.get(one.__name__) if text else None
        if isinstance(statement, ast.ClassDef):
            said |= _texts_below(statement.body)
    return said


def entries(text: str) -> Iterator[tuple[str, str]]:
    """The lines `name  what it is` of a docstring, with the indented lines that follow each."""
    names = ""
    said: list[str] = []
    for line in [*text.splitlines(), ""]:
        found = _ENTRY.fullmatch(line)
        if names and (found or not line.startswith("  ")):
            yield from ((name, " ".join(said)) for name in names.split(", "))
            names = ""
        if found:
            names, said = found[1], [found[2]]
        elif names:
            said.append(line.strip())


def first_sentences(text: str) -> Iterator[tuple[str, str]]:
    """The same of a library's `Args:`, as far as the first paragraph of each goes."""
    _, _, listed = text.partition("Args:\n")
    name = ""
    said: list[str] = []
    for line in [*listed.splitlines(), "end"]:
        found = _OF_A_LIBRARY.fullmatch(line)
        if name and (found or not line.strip() or not line.startswith("  ")):
            yield name, " ".join(said).replace("``", "`").strip()
            name = ""
        if found:
            name, said = found[1], [found[2]]
        elif name:
            said.append(line.strip())
        elif line and not line.startswith(" "):
            return


def _descriptions(target: Any) -> Iterator[tuple[str, str]]:
    handed = getattr(target, "accepts", "")
    above = [target_at(handed)] if isinstance(handed, str) and handed else []
    for base in (*above, *getattr(target, "__bases__", ())):
        yield from _descriptions(base)
    if f"{getattr(target, '__module__', '')}.".startswith(OURS):
        yield from entries(inspect.getdoc(target) or "")
        return
    constructor = vars(target).get("__init__") if inspect.isclass(target) else None
    for said in (vars(target).get("__doc__"), getattr(constructor, "__doc__", None)):
        yield from first_sentences(inspect.cleandoc(said) if isinstance(said, str) else "")


def _texts_below(body: list[ast.stmt]) -> dict[str, str]:
    said = {}
    for field, below in itertools.pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = typing.cast(ast.Constant, below.value).value
            said[field.target.id] = " ".join(str(text).split())
    return said
